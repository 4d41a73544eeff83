"""Tests of `--console`: errors that prevent the start, and failures that must not stop the broker."""

from __future__ import annotations

import logging
import socket
import sys
from types import ModuleType

import click
import pytest

from pykbroker.cli.start import console
from pykbroker.core.address import Address


@pytest.mark.parametrize(
    ("missing", "named"),
    [({"hypercorn"}, "hypercorn"), ({"prometheus_client", "hypercorn"}, "prometheus_client and hypercorn")],
)
def test_the_error_for_missing_packages_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch, missing: set[str], named: str
) -> None:
    monkeypatch.setattr(console, "find_spec", lambda name: None if name in missing else object())
    with pytest.raises(click.ClickException) as refused:
        console.Console(Address("127.0.0.1", 0))
    assert refused.value.message == f"--console requires {named}, which pip install 'pykbroker[console]' brings"


def test_a_console_port_in_use_prevents_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(click.ClickException) as refused:
            console.Console(Address("127.0.0.1", port))
    assert refused.value.message.startswith(f"cannot listen on 127.0.0.1:{port} for --console: Address already in use")


async def test_a_failure_of_the_console_is_logged_and_does_not_end_the_broker(
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
        await bound.run(object(), bool)
    assert "the broker goes on" in caplog.text
    socket.socket(fileno=descriptor).close()
    bound.close()
