"""Tests of peers that speak another protocol: the log has one line per host and minute, with the setting to change."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from pykbroker.core.security.session import Session
from pykbroker.server.frame_pool import FramePool
from pykbroker.server.frames import FrameReader
from pykbroker.server.strangers import HTTP, TLS, NotKafka, Strangers, other_protocol
from pykbroker.world import rate_limited_warning
from pykbroker.world.rate_limited_warning import SILENT_S
from wire.errors import DecodeError

CLIENT_HELLO = bytes.fromhex("160301020001fc0303")
REASON = "set something"


def session(host: int, port: int = 5) -> Session:
    return Session(f"10.0.0.{host}", port, "10.0.0.100", 9092, "CLIENTS", 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(CLIENT_HELLO, TLS), (b"GET /metrics HTTP/1.1\r\n", HTTP), (b"PRI * HTTP/2.0\r\n", HTTP), (b"POST /", HTTP)],
)
def test_the_first_bytes_of_other_protocols_are_recognized(data: bytes, reason: str) -> None:
    with pytest.raises(NotKafka, match=reason[:20]):
        FrameReader(100 << 20, FramePool()).end_of(data, 0)


@pytest.mark.parametrize("data", [b"\x16\x04\x00\x00aaaa", b"get /", b"\xff\xff\xff\xff"])
def test_other_invalid_frame_sizes_are_reported_as_sizes(data: bytes) -> None:
    with pytest.raises(DecodeError, match="a request of") as refused:
        FrameReader(100 << 20, FramePool()).end_of(data, 0)
    assert not isinstance(refused.value, NotKafka)


def test_bytes_that_are_a_valid_frame_size_are_read_as_a_request() -> None:
    assert FrameReader(0x16030200, FramePool()).end_of(CLIENT_HELLO, 0) == 0
    assert other_protocol(b"\x00\x00\x00\x20") == ""


def test_each_host_is_logged_once_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0
    seen = Strangers(lambda: now)
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        seen.report(session(1, 5), REASON)
    seen.report(session(2, 5), REASON)
    assert [record.getMessage() for record in caplog.records] == [
        f"10.0.0.{host}:5 is no client of the listener CLIENTS: {REASON}" for host in (1, 2)
    ]
    now = SILENT_S * 1_000_000_000
    seen.report(session(1, 6), REASON)
    assert caplog.records[-1].getMessage().endswith("(2 more like this since the last such line)")


def test_each_listener_of_a_host_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    seen = Strangers(lambda: 0)
    for _ in range(2):
        for listener in ("CLIENTS", "OTHERS"):
            seen.report(replace(session(1), listener=listener), REASON)
            seen.closing(replace(session(1), listener=listener), DecodeError("x"))
    assert len(caplog.records) == 4


@pytest.mark.parametrize(("hosts", "lines"), [(2, 2), (3, 3), (5, 4)])
def test_hosts_above_the_limit_share_one_log_line(
    hosts: int, lines: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limited_warning, "KINDS_MAX", 3)
    seen = Strangers(lambda: 0)
    for host in range(hosts):
        seen.report(session(host), REASON)
    assert len(caplog.records) == lines


def test_hosts_of_which_nothing_was_logged_for_a_minute_make_room_for_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limited_warning, "KINDS_MAX", 3)
    now = 0
    seen = Strangers(lambda: now)
    for host in range(5):
        seen.report(session(host), REASON)
    now = SILENT_S * 1_000_000_000
    caplog.clear()
    for host in (8, 9, 10):
        seen.report(session(host), REASON)
        seen.report(session(host), REASON)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["10.0.0.8", "10.0.0.9", "10.0.0.10"]
