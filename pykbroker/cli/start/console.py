"""The console of `pykbroker start --console`: a socket that is bound before the broker starts, and its server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from pykbroker.core.address import Address
from pykbroker.world.system_bind import bound_socket, listen
from pykbroker.world.system_off_loop import SystemOffLoop

REQUIRED = ("prometheus_client", "hypercorn")
BACKLOG = 128
"""The number of scrapes and health checks that may wait to be accepted."""

logger = logging.getLogger(__name__)


class Console:
    """The console's address, which is bound at once and served by `run`.

    click.ClickException: a package is missing, or the address cannot be bound.
    """

    def __init__(self, address: Address) -> None:
        missing = [name for name in REQUIRED if find_spec(name) is None]
        if missing:
            raise click.ClickException(
                f"--console requires {' and '.join(missing)}, which pip install 'pykbroker[console]' brings"
            )
        try:
            self._socket = bound_socket(*address)
            listen(self._socket, BACKLOG)
        except OSError as error:
            raise click.ClickException(
                f"cannot listen on {address} for --console: {error.strerror}. "
                "Choose another HOST:PORT, or port 0 for any free one"
            ) from None
        self.address = address._replace(port=self._socket.getsockname()[1])

    def close(self) -> None:
        """Close the socket when the broker does not start."""
        self._socket.close()

    async def run(self, observer: Any, is_stopping: Callable[[], bool]) -> None:
        """Serve the broker's metrics and health until cancelled. A failure is logged and does not affect the broker."""
        try:
            endpoint = await SystemOffLoop()(import_module, "pykbroker.console.endpoint")
            logger.info("console: serving metrics on http://%s/metrics", self.address)
            await endpoint.serve(self._socket.detach(), observer, is_stopping)
        except Exception:
            logger.exception("the console has failed and serves no metrics; the broker goes on")
