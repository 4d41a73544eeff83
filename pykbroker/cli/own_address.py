"""The address of the broker that the variables of this environment start: the default of all commands for clients."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.core.config.listeners import ListenerSettings

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TEXT = f"[default: the first listener that variables of pykbroker start name, else {DEFAULT_BOOTSTRAP}]"
"""The text about `default_bootstrap` in the help of an option."""
LOOPBACK = "127.0.0.1"
OF_LISTENERS = (
    "PYKBROKER_CONTAINER",
    "PYKBROKER_LISTEN",
    "PYKBROKER_LISTENERS",
    "PYKBROKER_CONFIG",
    "PYKBROKER_TLS",
    "PYKBROKER_USER",
)
"""The variables of `pykbroker start` that may name a listener. The first one makes it read those of images of Kafka."""


def default_bootstrap() -> str:
    """Return the address of the first listener that the variables name, or else `DEFAULT_BOOTSTRAP`.

    click.ClickException: the variables are invalid, or select any free port.
    """
    from pykbroker.core.config.listeners import NOT_ROUTABLE

    if (listener := own_listener()) is None:
        return DEFAULT_BOOTSTRAP
    host, port = listener.address
    if not port:
        raise click.ClickException("the variables let the broker choose any free port: name its port with --bootstrap")
    return str(Address(LOOPBACK if host in NOT_ROUTABLE else host, port))


def own_listener() -> ListenerSettings | None:
    """Return the first listener that the variables name, or None. click.ClickException: the variables are invalid."""
    if not any(map(os.environ.get, OF_LISTENERS)):
        return None
    from pykbroker.cli.start.options import Options
    from pykbroker.cli.start.start import start
    from pykbroker.core.errors import StartError
    from pykbroker.core.new_user import NewUser
    from pykbroker.core.security.secret import Secret

    given = start.make_context("start", []).params
    options = Options(
        given["listen"],
        file=given["file"],
        container=given["container"],
        environ=dict(os.environ),
        has_own_certificate=given["tls"] is not None,
        users=tuple(NewUser(text, Secret("")) for text in given["users"]),  # a file of passwords is not for commands
    )
    try:
        return options.settings().listeners[0]
    except StartError as error:
        raise click.ClickException(str(error)) from None
