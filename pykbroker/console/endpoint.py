"""The HTTP endpoint of the console: `GET /metrics`, for Prometheus."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypercorn.config import Config
from hypercorn.trio import serve as serve_http

from pykbroker.console.metrics import CONTENT_TYPE, exposition

if TYPE_CHECKING:
    from pykbroker.broker import BrokerStatistics

METRICS = "/metrics"
PLAIN = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


async def serve(descriptor: int, statistics: Callable[[], BrokerStatistics]) -> None:
    """Answer on a bound TCP socket, which is this function's from now on, until cancelled."""
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.errorlog = quiet()
    config.include_server_header = False
    await serve_http(Endpoint(exposition(statistics)), config, mode="asgi")


def quiet() -> logging.Logger:
    """For hypercorn: what it has to say of its own start is no news."""
    of_http = logging.getLogger(f"{__name__}.http")
    of_http.setLevel(logging.WARNING)
    return of_http


class Endpoint:
    """An ASGI application."""

    def __init__(self, metrics: Callable[[], bytes]) -> None:
        self._metrics = metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the life of the server, which is of no interest here."""
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
        elif scope["type"] == "http":
            status, content_type, body = self.answer(scope["method"], scope["path"])
            headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body)."""
        if path != METRICS:
            return 404, PLAIN, b"There is nothing but /metrics here.\n"
        if method not in ("GET", "HEAD"):
            return 405, PLAIN, b"Metrics can only be read.\n"
        return 200, CONTENT_TYPE, self._metrics()
