"""`--console`: what keeps it from coming up, and that it takes nobody with it."""

from __future__ import annotations

import logging
import socket
import sys
from types import ModuleType

import click
import pytest

from pykbroker.cli import console
from pykbroker.cli.parameters import Address


def test_without_the_extra_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "find_spec", lambda name: None if name == "hypercorn" else object())
    with pytest.raises(click.ClickException, match=r"requires hypercorn, .*: pip install 'pykbroker\[console\]'"):
        console.Console(Address("127.0.0.1", 0))


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(click.ClickException) as refused:
            console.Console(Address("127.0.0.1", port))
    assert refused.value.message.startswith(f"cannot listen on 127.0.0.1:{port} for --console: Address already in use")


async def test_a_console_that_fails_is_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(*given: object) -> None:
        raise KeyError("planted")

    endpoint = ModuleType("pykbroker.console.endpoint")
    endpoint.serve = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pykbroker.console.endpoint", endpoint)
    bound = console.Console(Address("127.0.0.1", 0))
    descriptor = bound._socket.fileno()
    with caplog.at_level(logging.ERROR):
        await bound.run(dict)
    assert "the broker goes on" in caplog.text
    socket.socket(fileno=descriptor).close()
    bound.close()
