"""The command `pykbroker wait`, which waits until a broker answers: for scripts and the health check of a container."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import bootstrap_option, converse, named
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.security import ClientSecurity

RETRY_S = 0.1


@click.command()
@bootstrap_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="The longest wait.",
)
def wait(bootstrap: Sequence[Address], timeout: float) -> None:
    """Wait until a broker answers, or exit with 1 if no broker answers in time."""
    import trio

    reason = trio.run(answered, bootstrap, timeout)
    if reason is not None:
        raise click.ClickException(f"no broker has answered on {named(bootstrap)} within {timeout:g} s: {reason}")
    click.echo(f"The broker on {named(bootstrap)} answers.")


async def answered(bootstrap: Sequence[Address], timeout: float, security: ClientSecurity | None = None) -> str | None:
    """Request metadata until the broker answers. Return None, or the last failure if `timeout` seconds pass.

    click.ClickException: broker or client refuse the other, which no further attempt changes.
    """
    import trio

    from pykbroker.client.errors import AuthenticationError, Disconnected

    reason = "it accepts connections, but is silent"
    with trio.move_on_after(timeout):
        while True:
            try:
                await converse(bootstrap, ask_metadata, security)
                return None
            except AuthenticationError as refusal:
                raise click.ClickException(str(refusal)) from None
            except (OSError, Disconnected) as failure:
                reason = str(failure)
            except trio.TooSlowError:
                reason = "it answers ApiVersions, but not Metadata"
            await trio.sleep(RETRY_S)
    return reason


async def ask_metadata(admin: Admin) -> None:
    """Request the metadata of no topic."""
    await admin.topics([])
