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
    """Serve HTTP on a bound TCP socket until cancelled, then close the socket.

    A scrape takes up to 20 ms of CPU and runs in `off_loop`.
    """
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.errorlog = quiet()
    config.include_server_header = False
    await serve_http(MetricsEndpoint(statistics, off_loop), config, mode="asgi")


def quiet() -> logging.Logger:
    """Return a logger for hypercorn that drops the messages about hypercorn's start."""
    of_http = logging.getLogger(f"{__name__}.http")
    of_http.setLevel(logging.WARNING)
    return of_http


class MetricsEndpoint:
    """An ASGI application that serves the metrics."""

    def __init__(self, statistics: Callable[[], BrokerStatistics], off_loop: OffLoop) -> None:
        self._statistics, self._off_loop = statistics, off_loop

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request. The server's lifespan events are ignored."""
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
        """Return (status, content type, body) of a response."""
        if path != METRICS:
            return 404, PLAIN, b"There is nothing but /metrics here.\n"
        if method not in ("GET", "HEAD"):
            return 405, PLAIN, b"Metrics can only be read.\n"
        return 200, CONTENT_TYPE, await self._off_loop(exposition, self._statistics())
