"""The HTTP endpoint of the console: `GET /metrics`, for Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypercorn.config import Config
from hypercorn.trio import serve as serve_http

from pykbroker.console.metrics import CONTENT_TYPE, exposition
from pykbroker.world.off_loop import OffLoop

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics

METRICS = "/metrics"
PLAIN = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


async def serve(descriptor: int, statistics: Callable[[], BrokerStatistics], off_loop: OffLoop) -> None:
    """Answer on a bound TCP socket, which is this function's from now on, until cancelled.

    A text of all metrics takes up to 20 ms to make: `off_loop` does that.
    """
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.errorlog = quiet()
    config.include_server_header = False
    await serve_http(MetricsEndpoint(statistics, off_loop), config, mode="asgi")


def quiet() -> logging.Logger:
    """For hypercorn: what it has to say of its own start is no news."""
    of_http = logging.getLogger(f"{__name__}.http")
    of_http.setLevel(logging.WARNING)
    return of_http


class MetricsEndpoint:
    """An ASGI application."""

    def __init__(self, statistics: Callable[[], BrokerStatistics], off_loop: OffLoop) -> None:
        self._statistics, self._off_loop = statistics, off_loop

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the life of the server, which is of no interest here."""
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
        elif scope["type"] == "http":
            status, content_type, body = await self._answer(scope["method"], scope["path"])
            headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body)."""
        if path != METRICS:
            return 404, PLAIN, b"There is nothing but /metrics here.\n"
        if method not in ("GET", "HEAD"):
            return 405, PLAIN, b"Metrics can only be read.\n"
        return 200, CONTENT_TYPE, await self._off_loop(exposition, self._statistics())
