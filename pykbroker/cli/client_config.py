"""The option --client-config: the properties of a Java client, for TLS and SASL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pykbroker.client.security import ClientSecurity

CLIENT_CONFIG_OPTION = "--client-config"
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
CLIENT_CONFIG = click.Option([CLIENT_CONFIG_OPTION], **ATTRIBUTES)
client_config_option = click.option(CLIENT_CONFIG_OPTION, **ATTRIBUTES)


def security_settings(context: click.Context | None = None) -> dict[str, str]:
    """Return the settings of TLS and SASL for a client of a command, which is by default the current one.

    click.ClickException: a setting is wrong.
    """
    path = path_of(context)
    if path is None:
        return {}
    from pykbroker.client.security_settings import InvalidSetting, settings_of_properties
    from pykbroker.core.errors import StartError

    try:
        return settings_of_properties(read_client_properties(path))
    except (StartError, InvalidSetting) as error:
        raise click.ClickException(f"{CLIENT_CONFIG_OPTION} {path}: {error}") from None


def security_of_command(context: click.Context | None = None) -> ClientSecurity:
    """Return how a command connects, by default the current one. click.ClickException: the settings do not work."""
    from pykbroker.client.security_settings import InvalidSetting, client_security

    given = security_settings(context)
    try:
        return client_security(given, f"{CLIENT_CONFIG_OPTION} {path_of(context)}")
    except InvalidSetting as error:
        raise click.ClickException(str(error)) from None


def path_of(context: click.Context | None) -> str | None:
    """Return the path of the file of a command, which is by default the current one."""
    context = context or click.get_current_context(silent=True)
    return None if context is None else context.meta.get(PATH)


def read_client_properties(path: str) -> dict[str, str]:
    """Return the properties of a Java client in a file, with the variables of its config providers replaced.

    StartError: the file, or one that a variable names, cannot be read.
    """
    from pykbroker.cli.start.server_properties import read_properties
    from pykbroker.core.config.providers import resolve
    from pykbroker.core.errors import ApiError, StartError
    from pykbroker.world.config_sources import SystemConfigSources

    texts = read_properties(path).texts
    try:
        return resolve(texts, texts, SystemConfigSources())
    except ApiError as error:
        raise StartError(str(error)) from None
