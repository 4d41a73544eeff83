"""The HTTP endpoint of the console: metrics for Prometheus, health checks, and a page of links to them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from hypercorn.config import Config
from hypercorn.trio import serve as serve_http

from pykbroker.console.exposition import exposition
from pykbroker.console.health import readiness
from pykbroker.console.observer import Observer
from pykbroker.console.text import CONTENT_TYPE

PLAIN = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
logger = logging.getLogger(__name__)


async def serve(descriptor: int, observer: Observer, is_stopping: Callable[[], bool]) -> None:
    """Serve HTTP on a bound TCP socket until cancelled, then close the socket."""
    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.errorlog = quiet()
    config.include_server_header = False
    await serve_http(ConsoleEndpoint(observer, is_stopping), config, mode="asgi")


def quiet() -> logging.Logger:
    """Return a logger for hypercorn that drops the messages of hypercorn's start."""
    of_http = logging.getLogger(f"{__name__}.http")
    of_http.setLevel(logging.WARNING)
    return of_http


class Page(NamedTuple):
    """A response of the console. Each portion of its body is written at once."""

    status: int
    content_type: str
    body: Sequence[bytes]


class ConsoleEndpoint:
    """An ASGI application that serves the pages of the console."""

    def __init__(self, observer: Observer, is_stopping: Callable[[], bool]) -> None:
        self._observer, self._is_stopping = observer, is_stopping

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one HTTP request. Lifespan events of the server are ignored."""
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
        elif scope["type"] == "http":
            page = await self._page(scope["method"], scope["path"])
            size = str(sum(map(len, page.body)))
            headers = [(b"content-type", page.content_type.encode()), (b"content-length", size.encode())]
            await send({"type": "http.response.start", "status": page.status, "headers": headers})
            for portion in () if scope["method"] == "HEAD" else page.body:
                await send({"type": "http.response.body", "body": portion, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def _page(self, method: str, path: str) -> Page:
        if path not in PAGES:
            return Page(404, PLAIN, [f"No such page. These exist: {' '.join(PAGES)}\n".encode()])
        if method not in ("GET", "HEAD"):
            return Page(405, PLAIN, [b"Pages of the console can only be read, with GET or HEAD.\n"])
        return await PAGES[path][1](self)

    async def _index(self) -> Page:
        links = "".join(f'<li><a href="{path}">{path}</a>: {text}</li>\n' for path, (text, _) in PAGES.items())
        return Page(200, HTML, [f"<!doctype html>\n<title>pykbroker</title>\n<ul>\n{links}</ul>\n".encode()])

    async def _metrics(self) -> Page:
        return Page(200, CONTENT_TYPE, await exposition(self._observer))

    async def _live(self) -> Page:
        return Page(200, PLAIN, [b"The broker is alive.\n"])

    async def _ready(self) -> Page:
        status, text = readiness(await self._observer.health(), is_stopping=self._is_stopping())
        return Page(status, PLAIN, [text.encode()])


PAGES: dict[str, tuple[str, Callable[[ConsoleEndpoint], Awaitable[Page]]]] = {
    "/": ("this page", ConsoleEndpoint._index),
    "/metrics": ("metrics for Prometheus", ConsoleEndpoint._metrics),
    "/healthz": ("whether the event loop of the broker runs", ConsoleEndpoint._live),
    "/readyz": ("whether the broker serves clients and no partition is offline", ConsoleEndpoint._ready),
}
"""The pages by path: (description, method that creates the page)."""
