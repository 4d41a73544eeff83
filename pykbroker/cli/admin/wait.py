"""The command `pykbroker wait`, which waits until a broker answers: for scripts and the health check of a container.

Without --client-config it needs neither a user nor a certificate. A broker answers ApiVersions before a log-in, and
asks for a certificate by TLS itself. As the requests have no secret, the certificate of the broker is not verified.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import bootstrap_option, converse, named
from pykbroker.cli.client_config import CLIENT_CONFIG_OPTION, security_of_command
from pykbroker.cli.own_address import own_listener
from pykbroker.core.address import Address

if TYPE_CHECKING:
    import ssl

    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.security import ClientSecurity
    from pykbroker.core.security.protocol import SecurityProtocol

RETRY_S = 0.1
NO_METADATA = "it answers ApiVersions, but not Metadata"


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
@click.pass_context
def wait(context: click.Context, bootstrap: Sequence[Address], timeout: float) -> None:
    """Wait until a broker answers, or exit with 1 if no broker answers in time.

    Without --client-config, a broker with TLS and users answers, too, and its certificate is not verified.
    """
    import trio

    from pykbroker.client.security import PLAINTEXT

    security = security_of_command()
    if security is not PLAINTEXT:
        reason = trio.run(answered, bootstrap, timeout, security)
    else:
        is_own = context.get_parameter_source("bootstrap") is click.core.ParameterSource.DEFAULT
        own = own_listener() if is_own else None
        reason = trio.run(answered_anybody, bootstrap, timeout, None if own is None else own.protocol)
    if reason is not None:
        raise click.ClickException(f"no broker has answered on {named(bootstrap)} within {timeout:g} s: {reason}")
    click.echo(f"The broker on {named(bootstrap)} answers.")


async def answered(
    bootstrap: Sequence[Address], timeout: float, security: ClientSecurity, option: str = CLIENT_CONFIG_OPTION
) -> str | None:
    """Request metadata until the broker answers. Return None, or the last failure if `timeout` seconds pass.

    `option` is that with the file of `security`.

    click.ClickException: broker or client refuse the other, which no further attempt changes.
    """
    import trio

    from pykbroker.client.errors import AuthenticationError, Disconnected

    async def attempt() -> str | None:
        try:
            await converse(bootstrap, ask_metadata, security)
        except AuthenticationError as refusal:
            raise click.ClickException(str(refusal)) from None
        except (OSError, Disconnected) as failure:
            return security.failure_text(failure, f"security.protocol in {option}")
        except trio.TooSlowError:
            return NO_METADATA
        return None

    return await until_answered(timeout, attempt)


async def answered_anybody(
    bootstrap: Sequence[Address], timeout: float, protocol: SecurityProtocol | None
) -> str | None:
    """Ask without credentials until the broker answers. Return None, or the last failure if `timeout` seconds pass.

    `protocol` is that of the listener. If it is None, each attempt is in plain text first, and then by TLS.
    """
    from pykbroker.client.security import PLAINTEXT, ClientSecurity

    tls = ClientSecurity(unverified)
    ways = [PLAINTEXT, tls] if protocol is None else [tls if protocol.has_tls else PLAINTEXT]
    has_log_in = protocol is not None and protocol.has_sasl

    async def attempt() -> str | None:
        failures = []
        try:
            for security in ways:
                failure = await failure_of(bootstrap, security, has_log_in=has_log_in)
                if failure is None:
                    return None
                failures.append(failure)
        except OSError as refusal:  # a listener that opens now would take TLS for a stranger's
            failures.append(str(refusal))
        return failures[0]

    return await until_answered(timeout, attempt)


async def failure_of(bootstrap: Sequence[Address], security: ClientSecurity, *, has_log_in: bool) -> str | None:
    """Ask without credentials, and return why no broker has answered, or None if one has. OSError: none can be reached.

    A broker that wants a certificate has answered, and so has one that closes the connection only after ApiVersions,
    since its listener may have a log-in.
    """
    import trio

    from pykbroker.client.errors import CertificateRefused, Disconnected, Silent

    has_answered = False

    async def work(admin: Admin) -> None:
        nonlocal has_answered
        has_answered = True
        if not has_log_in:
            await ask_metadata(admin)

    try:
        await converse(bootstrap, work, security)
    except CertificateRefused:
        return None
    except Silent as failure:
        return str(failure)
    except Disconnected as failure:
        return None if has_answered else str(failure)
    except trio.TooSlowError:
        return NO_METADATA
    return None


async def until_answered(timeout: float, attempt: Callable[[], Awaitable[str | None]]) -> str | None:
    """Repeat an attempt until it returns None. Return None, or the last failure if `timeout` seconds pass."""
    import trio

    reason: str | None = "it accepts connections, but is silent"
    with trio.move_on_after(timeout):
        while True:
            reason = await attempt()
            if reason is None:
                return None
            await trio.sleep(RETRY_S)
    return reason


async def ask_metadata(admin: Admin) -> None:
    """Request the metadata of no topic."""
    await admin.topics([])


def unverified() -> ssl.SSLContext:
    """Return a context that trusts any certificate, for connections that carry no secret."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
