"""Tests of the console's endpoint over a real socket."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import trio

from pykbroker.broker import BrokerHealth, BrokerStatistics
from pykbroker.console.endpoint import serve
from pykbroker.console.text import PORTION_BYTES_MIN
from tests.unit.console.observed import FOUND, Observed, samples


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Send a request; return (head, body) of the response once the server has closed the connection."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request + b"Host: x\r\nConnection: close\r\n\r\n")
        data = b"".join([part async for part in stream])
    head, _, body = data.partition(b"\r\n\r\n")
    return head.lower(), body


async def get(port: int, path: str) -> tuple[int, str]:
    """Return (status, body) of a page."""
    head, body = await ask(port, f"GET {path} HTTP/1.1\r\n".encode())
    return int(head.split()[1]), body.decode()


@asynccontextmanager
async def served(observer: Observed, is_stopping: Callable[[], bool] = bool) -> AsyncIterator[int]:
    """Serve the console, and yield its port."""
    bound = socket.create_server(("127.0.0.1", 0))
    port: int = bound.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, bound.detach(), observer, is_stopping)
        yield port
        nursery.cancel_scope.cancel()


async def test_the_endpoint_serves_metrics_to_prometheus() -> None:
    async with served(Observed()) as port:
        head, body = await ask(port, b"GET /metrics HTTP/1.1\r\n")
        assert head.startswith(b"http/1.1 200")
        assert b"content-type: text/plain; version=" in head
        assert samples(body.decode())["kafka_brokers", ()] == 1
        head, body = await ask(port, b"HEAD /metrics HTTP/1.1\r\n")
        assert (head.startswith(b"http/1.1 200"), body) == (True, b"")
        assert (await ask(port, b"GET /nothing HTTP/1.1\r\n"))[0].startswith(b"http/1.1 404")
        assert (await ask(port, b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n"))[0].startswith(b"http/1.1 405")
        assert (await ask(port, b"no http at all\r\n"))[0].startswith(b"http/1.1 400")
        assert (await ask(port, b"GET /metrics HTTP/1.1\r\n"))[0].startswith(b"http/1.1 200")


async def test_each_scrape_reads_new_statistics_and_a_failure_ends_only_that_scrape() -> None:
    asked: list[int] = []

    class Failing(Observed):
        async def statistics(self) -> BrokerStatistics:
            asked.append(1)
            if len(asked) == 2:
                raise KeyError("planted")
            return FOUND

    async with served(Failing()) as port:
        assert [(await get(port, "/metrics"))[0] for _ in range(3)] == [200, 500, 200]


async def test_every_link_of_the_index_page_leads_to_a_page() -> None:
    async with served(Observed()) as port:
        status, page = await get(port, "/")
        paths = re.findall(r'href="([^"]+)"', page)
        assert (status, paths) == (200, ["/", "/metrics", "/healthz", "/readyz"])
        assert [(await get(port, path))[0] for path in paths] == [200] * 4


async def test_a_broker_is_ready_while_it_serves_and_has_no_offline_partition() -> None:
    observer, stopping = Observed(), trio.Event()
    async with served(observer, stopping.is_set) as port:
        assert await get(port, "/readyz") == (200, "The broker serves clients, and no partition is offline.\n")
        observer.found_health = BrokerHealth((), 1)
        status, text = await get(port, "/readyz")
        assert (status, text.startswith("1 partitions are offline")) == (503, True)
        observer.found_health = BrokerHealth(("/d/b",), 1)
        status, text = await get(port, "/readyz")
        assert (status, text.startswith("Log directories have failed: /d/b.")) == (503, True)
        assert (await get(port, "/healthz"))[0] == 200
        observer.found_health = BrokerHealth((), 0)
        stopping.set()
        assert await get(port, "/readyz") == (503, "The broker is stopping.\n")


async def test_a_body_that_needs_several_writes_arrives_whole() -> None:
    long = "x" * (2 * PORTION_BYTES_MIN)
    found = msgspec.structs.replace(FOUND, directories=(msgspec.structs.replace(FOUND.directories[0], path=long),))
    async with served(Observed(found)) as port:
        _, text = await get(port, "/metrics")
        assert samples(text)["pykbroker_logs", (("directory", long),)] == 3
