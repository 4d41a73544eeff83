"""The connection of Kafka's tools to a broker: --bootstrap-server, and the file of --command-config."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.kafka_tools.options import Given, InvalidCommandLine
from pykbroker.cli.kafka_tools.properties import security_settings
from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.client.security import ClientSecurity

REACH_S_MAX = 60
"""The longest wait for a broker: Kafka's default.api.timeout.ms. Init containers rely on it to wait for a start."""
COMMAND_CONFIG = "--command-config"


def bootstrap(given: Given) -> tuple[Address, ...]:
    """Return the brokers of --bootstrap-server. InvalidCommandLine: the option is missing, or a broker has no port."""
    from pykbroker.cli.parameters import broker

    if "bootstrap-server" not in given:
        raise InvalidCommandLine('Missing required argument "[bootstrap-server]": write --bootstrap-server HOST:PORT')
    found = []
    for text in given.text("bootstrap-server").split(","):
        if not text.strip().rpartition(":")[2].isdigit():
            raise InvalidCommandLine(f"Invalid url in bootstrap.servers: {text}. Write --bootstrap-server HOST:PORT")
        try:
            found.append(broker(text.strip().rpartition("://")[2]))
        except click.BadParameter as error:
            raise InvalidCommandLine(f"--bootstrap-server: {error.message}") from None
    return tuple(found)


def file_properties(given: Given, *options: str) -> dict[str, str]:
    """Return the properties in the files of options. InvalidCommandLine: one cannot be read."""
    from pykbroker.cli.client_config import read_client_properties
    from pykbroker.core.errors import StartError

    found: dict[str, str] = {}
    for path in given.all(*options):
        try:
            found.update(read_client_properties(path))
        except StartError as error:
            raise InvalidCommandLine(str(error)) from None
    return found


def security_of(settings: Mapping[str, Any]) -> ClientSecurity:
    """Return the security of a client's settings. InvalidCommandLine: the settings of TLS or SASL do not work."""
    from pykbroker.client.security_settings import InvalidSetting, client_security, split_security

    try:
        return client_security(split_security(settings)[0], COMMAND_CONFIG)
    except InvalidSetting as error:
        raise InvalidCommandLine(str(error)) from None


def talk(given: Given, work: Callable[[Admin], Awaitable[None]], *, reach_s: float = REACH_S_MAX) -> None:
    """Run `work` with an admin client of the first broker that answers. Wait for it for `reach_s` seconds.

    click.ClickException: no broker has answered in time, or it refuses a request.
    """
    from pykbroker.cli.ask import ask

    servers = bootstrap(given)
    security = security_of(security_settings(file_properties(given, "command-config")))
    if reach_s:
        reach(servers, reach_s, security)
    ask(servers, work, "--bootstrap-server", security, COMMAND_CONFIG)


def talk_in_time(given: Given, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Do the same as `talk`, but wait for --timeout ms if this is given."""
    talk(given, work, reach_s=given.number("timeout", REACH_S_MAX * 1000, 1) / 1000)


def reach(servers: Sequence[Address], within_s: float, security: ClientSecurity) -> None:
    """Wait until a broker answers. click.ClickException: none has answered within this time, or one refuses."""
    import trio

    from pykbroker.cli.admin.wait import answered
    from pykbroker.cli.ask import named

    reason = trio.run(answered, servers, within_s, security, COMMAND_CONFIG)
    if reason is not None:
        raise click.ClickException(
            f"no broker has answered on {named(servers)} within {within_s:g} s ({reason}): start one, or name another"
            " in --bootstrap-server"
        )
