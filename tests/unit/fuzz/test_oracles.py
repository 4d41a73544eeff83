"""Tests of the fuzzer's checks: each check finds a planted defect of the broker."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from pykbroker.apis.configs.list_config_resources import ListConfigResources
from pykbroker.cli.logs.dumping import Damaged
from pykbroker.server.handler import Later
from pykbroker.server.table import Route
from tools.fuzz.fuzzed_broker import CANARY, Finding, FuzzedBroker, check_logs, fuzzed_broker
from wire.frame import encode_request
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder, sealed

REQUEST = encode_request(ListConfigResourcesRequest(), 1, 77, "fuzz")
Handler = Callable[..., Any]


async def leaked() -> Any:
    await trio.sleep_forever()


def raises(*given: Any) -> Any:
    raise KeyError("planted")


def returns_an_invalid_response(*given: Any) -> Any:
    return ListConfigResourcesResponse(config_resources=[None])  # type: ignore[list-item]


def never_answers(*given: Any) -> Any:
    return Later(leaked(), holds_connection=False)


def leaks(*given: Any) -> Any:
    trio.lowlevel.spawn_system_task(leaked)
    return ListConfigResourcesResponse()


def takes_memory(*given: Any) -> Any:
    bytearray(2 << 20)
    return ListConfigResourcesResponse()


def is_right(*given: Any) -> Any:
    return ListConfigResourcesResponse()


@pytest.mark.parametrize(
    ("handler", "finding"),
    [
        (raises, "planted"),
        (returns_an_invalid_response, "EncodeError"),
        (never_answers, "1 requests, 0 responses"),
        (leaks, "1 tasks are left"),
        (takes_memory, "bytes of memory"),
        (is_right, None),
    ],
)
def test_a_defect_planted_in_a_handler_is_found(
    handler: Handler, finding: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with fuzzed_broker(tmp_path, 1) as running:
            monkeypatch.setattr(ListConfigResources, "__call__", is_right)
            await running.feed(REQUEST)
            monkeypatch.setattr(ListConfigResources, "__call__", handler)
            tracemalloc.start()
            try:
                await check_finding(running, finding)
            finally:
                tracemalloc.stop()

    trio.run(main)


async def check_finding(running: FuzzedBroker, finding: str | None) -> None:
    if finding is None:
        await running.feed_measured(REQUEST)
        return
    with pytest.raises(Finding, match=finding):
        await running.feed_measured(REQUEST)


def test_a_response_with_a_wrong_correlation_id_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with fuzzed_broker(tmp_path, 1) as running:
            frame = Route.frame
            monkeypatch.setattr(Route, "frame", lambda self, number, *rest: frame(self, number + 1, *rest))
            with pytest.raises(Finding, match="the response to correlation id 77 has 78"):
                await running.feed(REQUEST)
            monkeypatch.undo()

    trio.run(main)


def test_a_request_that_harms_another_connection_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with fuzzed_broker(tmp_path, 1) as running:
            await running.check_canary()
            await running.call(DeleteTopicsRequest(topic_names=[CANARY], timeout_ms=1000), 5)
            with pytest.raises(Finding, match="another connection produced at offset 1, and got"):
                await running.check_canary()
            with pytest.raises(Finding, match="another connection fetched at offset 0, and got"):
                await running.canary_values(0)
            monkeypatch.setattr(running, "canary_values", nothing)
            running.canary_count = 0

    async def nothing(offset: int) -> list[bytes]:
        return []

    trio.run(main)


def test_a_damaged_log_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with fuzzed_broker(tmp_path, 1) as running:
            await running.check_canary()

    trio.run(main)
    log = next(tmp_path.glob(f"{CANARY}-0/*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(Damaged):
        check_logs(tmp_path)


@pytest.mark.parametrize(
    ("changes", "finding"),
    [({}, None), ({"count": 1, "last_offset_delta": 0}, "cannot be read"), ({"max_timestamp": 0}, "largest timestamp")],
)
def test_records_that_contradict_their_batch_header_are_found(
    changes: Mapping[str, int], finding: str | None, tmp_path: Path
) -> None:
    builder = BatchBuilder()
    for _ in range(2):
        builder.append(b"key", b"value", (), 1000)
    whole = Batch.read(builder.build())
    (tmp_path / "00000000000000000000.log").write_bytes(sealed(replace(whole, **changes), whole.payload))
    with nullcontext() if finding is None else pytest.raises(Finding, match=finding):
        check_logs(tmp_path)
