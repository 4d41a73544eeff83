"""The option --client-config: the properties of a Java client, for TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pykbroker.client.security import ClientSecurity

VARIABLE = "PYKBROKER_CLIENT_CONFIG"
PATH = "pykbroker.cli.client_config"
"""The key of the file's path in the context of a command."""


def note(context: click.Context, _: click.Parameter, path: str | None) -> None:
    """Keep the path of the file for `security_settings` and `security_of_command`."""
    if path is not None:
        context.meta[PATH] = path


ATTRIBUTES: dict[str, Any] = {
    "envvar": VARIABLE,
    "show_envvar": True,
    "type": click.Path(exists=True, dir_okay=False),
    "metavar": "FILE",
    "expose_value": False,
    "callback": note,
    "help": "The properties of a Java client, of which those of TLS and SASL are used.",
}
CLIENT_CONFIG = click.Option(["--client-config"], **ATTRIBUTES)
client_config_option = click.option("--client-config", **ATTRIBUTES)


def security_settings(context: click.Context | None = None) -> dict[str, str]:
    """Return the settings of TLS and SASL for a client of a command, which is by default the current one.

    click.ClickException: a setting is wrong.
    """
    context = context or click.get_current_context(silent=True)
    path = None if context is None else context.meta.get(PATH)
    if path is None:
        return {}
    from pykbroker.cli.start.server_properties import read_properties
    from pykbroker.client.security_settings import InvalidSetting, settings_of_properties
    from pykbroker.core.errors import StartError

    try:
        return settings_of_properties(read_properties(path).texts)
    except (StartError, InvalidSetting) as error:
        raise click.ClickException(f"--client-config {path}: {error}") from None


def security_of_command(context: click.Context | None = None) -> ClientSecurity:
    """Return how a command connects, by default the current one. click.ClickException: the settings do not work."""
    from pykbroker.client.security_settings import InvalidSetting, client_security

    given = security_settings(context)
    try:
        return client_security(given, "--client-config")
    except InvalidSetting as error:
        raise click.ClickException(str(error)) from None
