"""`pykbroker start --console`: its socket, bound before the broker starts, and the task that answers on it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from pykbroker.cli.parameters import Address
from pykbroker.world.system_off_loop import SystemOffLoop

NEEDED = ("prometheus_client", "hypercorn")

logger = logging.getLogger(__name__)


class Console:
    """Bound, but silent until `run`. click.ClickException: a package is missing, or the address cannot be had."""

    def __init__(self, address: Address) -> None:
        missing = [name for name in NEEDED if find_spec(name) is None]
        if missing:
            raise click.ClickException(
                f"--console needs {' and '.join(missing)}, absent here: pip install 'pykbroker[console]'"
            )
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self._socket = socket.create_server(address, family=family)
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {address} for --console: {error.strerror}. "
                "Choose another HOST:PORT, or port 0 for any free one"
            ) from None
        self.address = Address(*self._socket.getsockname()[:2])

    def close(self) -> None:
        """For a broker that does not come to serve."""
        self._socket.close()

    async def run(self, statistics: Callable[[], Any]) -> None:
        """Answer until cancelled. It may fail, and the broker goes on."""
        try:
            off_loop = SystemOffLoop()
            endpoint = await off_loop(import_module, "pykbroker.console.endpoint")
            logger.info("metrics on http://%s/metrics", self.address)
            await endpoint.serve(self._socket.detach(), statistics, off_loop)
        except Exception:
            logger.exception("the console has failed; the broker goes on")
