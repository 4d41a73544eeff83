"""The address of the broker that the variables of this environment start: the default of all commands for clients."""

from __future__ import annotations

import os

import click

from pykbroker.core.address import Address

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TEXT = f"[default: the first listener that variables of pykbroker start name, else {DEFAULT_BOOTSTRAP}]"
"""The text about `default_bootstrap` in the help of an option."""
LOOPBACK = "127.0.0.1"
OF_LISTENERS = ("PYKBROKER_CONTAINER", "PYKBROKER_LISTEN", "PYKBROKER_LISTENERS", "PYKBROKER_CONFIG")
"""The variables of `pykbroker start` that may name a listener. The first one makes it read those of images of Kafka."""


def default_bootstrap() -> str:
    """Return the first listener that the variables name, or else `DEFAULT_BOOTSTRAP`.

    click.ClickException: the variables are invalid, or select any free port.
    """
    if not any(map(os.environ.get, OF_LISTENERS)):
        return DEFAULT_BOOTSTRAP
    from pykbroker.cli.start.options import Options
    from pykbroker.cli.start.start import start
    from pykbroker.core.config.listeners import NOT_ROUTABLE
    from pykbroker.core.errors import StartError

    given = start.make_context("start", []).params
    options = Options(given["listen"], file=given["file"], container=given["container"], environ=dict(os.environ))
    try:
        host, port = options.settings().listeners[0].address
    except StartError as error:
        raise click.ClickException(str(error)) from None
    if not port:
        raise click.ClickException("the variables let the broker choose any free port: name its port with --bootstrap")
    return str(Address(LOOPBACK if host in NOT_ROUTABLE else host, port))
