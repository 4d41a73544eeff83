"""A connection to a running broker for one command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykbroker.cli.client_config import CLIENT_CONFIG_OPTION, client_config_option, security_of_command
from pykbroker.cli.own_address import DEFAULT_TEXT, default_bootstrap
from pykbroker.cli.parameters import bootstrap_servers, together
from pykbroker.core.address import Address
from pykbroker.core.address import named as named

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.security import ClientSecurity

T = TypeVar("T")

ANSWER_S_MAX = 30
CLIENT_ID = "pykbroker-cli"
BOOTSTRAP_VARIABLE = "PYKBROKER_BOOTSTRAP"
NOT_AUTHORIZED = "AUTHORIZATION_FAILED"
"""The end of the names of error codes for a right that a user lacks."""
MISSING_RIGHT = ": `pykbroker acls check` names the ACL that is missing"
"""The advice about such an error. Kafka's tools give none."""

bootstrap_option = together(
    click.option(
        "-b",
        "--bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        type=bootstrap_servers,
        metavar="HOST[:PORT],...",
        default=default_bootstrap,
        help=f"The brokers to try in this order; port 9092 may be left out. {DEFAULT_TEXT}",
    ),
    client_config_option,
)
"""The options of a command that connects: --bootstrap and --client-config."""


def ask(
    bootstrap: Sequence[Address],
    work: Callable[[Admin], Awaitable[T]],
    option: str = "--bootstrap",
    security: ClientSecurity | None = None,
    security_option: str = CLIENT_CONFIG_OPTION,
) -> T:
    """Return what `work` returns for an admin client of the first broker that answers. `option` names the brokers.

    `security` is by default that of --client-config. `security_option` names the option that has it.

    click.ClickException: no broker answers, or it refuses a request.
    """
    import trio

    from pykbroker.client.admin.admin_session import NoneAnswered
    from pykbroker.client.errors import Disconnected, UnsupportedVersion
    from pykbroker.core.errors import ApiError
    from wire.errors import EncodeError

    security = security or security_of_command()
    told = partial(security.failure_text, setting=f"security.protocol in {security_option}")
    try:
        return trio.run(converse, bootstrap, work, security)
    except BrokenPipeError:
        raise  # the reader of the output has gone, as in `pykbroker topics list | head -1`
    except OSError as error:
        reasons = "; ".join(map(told, error.failures if isinstance(error, NoneAnswered) else [error]))
        raise click.ClickException(
            f"no broker answers on {named(bootstrap)} ({reasons}): start one, or choose another with {option}"
        ) from None
    except trio.TooSlowError:
        raise click.ClickException(trio.run(explain_silence, bootstrap, security)) from None
    except (ApiError, Disconnected, EncodeError, UnsupportedVersion) as error:  # EncodeError: a name is too long
        is_refused = isinstance(error, ApiError) and error.code.name.endswith(NOT_AUTHORIZED)
        hint = MISSING_RIGHT if is_refused and security_option == CLIENT_CONFIG_OPTION else ""
        raise click.ClickException(f"{told(error)}{hint}") from None


def asking(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Add --bootstrap to a command whose first argument is an admin client of the first broker that answers."""

    @wraps(command)
    def run(bootstrap: Sequence[Address], **options: Any) -> None:
        ask(bootstrap, lambda admin: command(admin, **options))

    return bootstrap_option(run)


def refuse(reasons: Iterable[str]) -> None:
    """Raise click.ClickException with a line for each reason, unless there is none."""
    if lines := "\n".join(reasons):
        raise click.ClickException(lines)


async def explain_silence(bootstrap: Sequence[Address], security: ClientSecurity | None = None) -> str:
    """Return which node has not answered a request: the broker, or the controller that the broker waits for."""
    from pykbroker.client.admin.admin_session import with_admin
    from pykbroker.client.admin.cluster_description import find_controller
    from pykbroker.client.errors import Disconnected, UnsupportedVersion
    from pykbroker.core.errors import ApiError

    with suppress(ApiError, OSError, Disconnected, UnsupportedVersion):
        if await with_admin(bootstrap, CLIENT_ID, find_controller, security or security_of_command()) is None:
            return (
                f"the controller has not answered the broker on {named(bootstrap)} within {ANSWER_S_MAX} s: start the"
                " controller's node"
            )
    return f"the broker on {named(bootstrap)} has not answered within {ANSWER_S_MAX} s"


async def converse(
    bootstrap: Sequence[Address], work: Callable[[Admin], Awaitable[T]], security: ClientSecurity | None = None
) -> T:
    """Connect, return what `work` returns, and disconnect, within `ANSWER_S_MAX`. trio.TooSlowError."""
    import trio

    from pykbroker.client.admin.admin_session import with_admin

    with trio.fail_after(ANSWER_S_MAX):
        return await with_admin(bootstrap, CLIENT_ID, work, security or security_of_command())
