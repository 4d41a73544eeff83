"""Tests of `pykbroker.flush.before.ack`: a record is acknowledged and consumed only after its fsync."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from pykbroker.replica.care import upkeep
from pykbroker.world.system_disk import SystemFile
from tests.unit.apis.conftest import Client, LocalBroker, batch, fetch_request, produce_request, serving
from wire.error_codes import ErrorCode


class Device:
    """A disk that counts the fsyncs of topic t. An fsync waits until `go` is set, and fails if `error` is set."""

    def __init__(self) -> None:
        self.go, self.begun = trio.Event(), trio.Event()
        self.count = 0
        self.failure: OSError | None = None

    async def sync(self, file: SystemFile) -> None:
        if "/t-" in file.path and file.path.endswith(".log"):
            self.count += 1
            self.begun.set()
            await self.go.wait()
            if self.failure:
                raise self.failure


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()

    async def sync(file: SystemFile) -> None:
        await made.sync(file)

    monkeypatch.setattr(SystemFile, "sync", sync)
    return made


@pytest.fixture
async def local_broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with serving(tmp_path, pykbroker_flush_before_ack="true") as one:
        yield one


async def committed(client: Client) -> int:
    """Return the high watermark of a consumer's fetch; assert that no returned record is above it."""
    answer = await client.fetch("t", 0)
    assert bool(answer.records) == bool(answer.high_watermark)
    end: int = answer.high_watermark
    return end


@pytest.mark.parametrize("acks", [1, -1])
async def test_records_are_neither_acknowledged_nor_consumed_before_their_fsync(
    local_broker: LocalBroker, device: Device, acks: int
) -> None:
    producer, consumer = await local_broker.connect(), await local_broker.connect()
    await producer.create("t")
    await producer.send(produce_request("t", batch(b"v"), acks=acks), 11)
    await device.begun.wait()
    assert await committed(consumer) == 0
    device.go.set()
    answer = (await producer.receive()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert await committed(consumer) == 1


async def test_an_fsync_completes_a_waiting_fetch(local_broker: LocalBroker, device: Device) -> None:
    producer, consumer = await local_broker.connect(), await local_broker.connect()
    await producer.create("t")
    await consumer.send(fetch_request("t", 0, max_wait_ms=60_000), 12)
    await producer.send(produce_request("t", batch(b"v"), acks=0), 11)
    producer._sent.pop()
    device.go.set()
    assert (await consumer.receive()).responses[0].partitions[0].high_watermark == 1


async def test_many_connections_share_one_fsync(local_broker: LocalBroker, device: Device) -> None:
    clients = [await local_broker.connect() for _ in range(30)]
    await clients[0].create("t")
    await clients[0].send(produce_request("t", batch(b"v"), acks=1), 11)
    await device.begun.wait()
    for client in clients[1:]:
        await client.send(produce_request("t", batch(b"v"), acks=1), 11)
    for _ in clients:  # The broker needs some passes of the event loop to read the request.
        await (await local_broker.connect()).fetch("t", 0)
    device.go.set()
    for client in clients:
        assert (await client.receive()).responses[0].partition_responses[0].error_code == 0
    assert await committed(clients[0]) == 30
    assert device.count <= 4


async def test_after_a_failed_fsync_no_record_is_acknowledged_or_consumed(
    local_broker: LocalBroker, device: Device
) -> None:
    client = await local_broker.connect()
    await client.create("t")
    device.failure = OSError(28, "No space left on device")
    device.go.set()
    assert (await client.produce("t", batch(b"v"), acks=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    answer = await client.fetch("t", 0)
    assert (answer.error_code, answer.records or b"") == (ErrorCode.KAFKA_STORAGE_ERROR, b"")


async def test_records_are_committed_after_their_producer_disconnects(
    tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "COMMIT_INTERVAL_MS", 1)
    async with serving(tmp_path, pykbroker_flush_before_ack="true") as local_broker:
        producer, consumer = await local_broker.connect(), await local_broker.connect()
        await producer.create("t")
        await producer.send(produce_request("t", batch(b"v"), acks=1), 11)
        await device.begun.wait()
        await producer.stream.aclose()
        await consumer.fetch("t", 0)
        device.go.set()
        while await committed(consumer) == 0:
            await trio.lowlevel.checkpoint()


async def test_without_flush_before_ack_no_produce_waits_for_an_fsync(tmp_path: Path, device: Device) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("t")
        assert (await client.produce("t", batch(b"v"))).error_code == 0
        assert await committed(client) == 1
        device.go.set()


async def test_records_found_after_a_kill_are_fsynced_before_they_are_consumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        await client.create("t")
        await client.produce("t", batch(b"v"))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    synced: list[str] = []

    async def sync(file: SystemFile) -> None:
        synced.append(file.path)

    monkeypatch.setattr(SystemFile, "sync", sync)
    async with serving(tmp_path, pykbroker_flush_before_ack="true") as local_broker:
        assert any(path.endswith(f"t-0/{0:020d}.log") for path in synced)
        assert await committed(await local_broker.connect()) == 1
