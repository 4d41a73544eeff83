"""Helpers that start brokers on copies of Kafka's log directories and read records as a consumer does."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from struct import pack
from typing import Any

import trio
from msgspec.structs import replace

from pykbroker import broker
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.settings import Serving, Settings
from pykbroker.world.system import system_world
from tests.unit.apis.conftest import Client
from wire.messages.fetch import PartitionData
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.records.batch import Batch, batches
from wire.records.control import ControlType, control_records
from wire.records.record import Record, records

DESCRIBED = Path(__file__).parents[1] / "data" / "config" / "kafka-4.3.1-described.json"
GOLDEN_DAY_MS = 1_795_305_600_000  # 2026-11-22, the day after the directories were written
OURS_ALONE = (
    "log.dirs",
    "listeners",
    "advertised.listeners",
    "listener.security.protocol.map",
    "process.roles",
    "controller.listener.names",
    "controller.quorum.voters",
    "authorizer.class.name",
)
BATCH_BYTES_MAX = 1 << 24


def golden_configs() -> dict[str, str]:
    """Return the configs of the broker that wrote the directories, but never abort open transactions."""
    described = json.loads(DESCRIBED.read_text())["BROKER"]
    return {
        name: entry["value"]
        for name, entry in described.items()
        if entry["source"] == "STATIC_BROKER_CONFIG" and entry["value"] is not None and name not in OURS_ALONE
    } | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "3600000"}


@asynccontextmanager
async def serving(
    *directories: Path, configs: dict[str, str] | None = None, wall_ms: int = GOLDEN_DAY_MS
) -> AsyncIterator[Client]:
    """Run a broker on the given log directories during the block, and yield a client."""
    stop, ready = trio.Event(), trio.Event()
    started: list[Serving] = []

    def note(serving: Serving) -> None:
        started.append(serving)
        ready.set()

    paths = tuple(map(str, directories))
    settings = Settings(
        BrokerConfig.from_mapping(golden_configs() if configs is None else configs),
        paths,
        listeners=(ListenerSettings(address=Address("127.0.0.1", 0)),),
    )
    world = replace(system_world(paths, durable=False), wall_ms=lambda: wall_ms)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await broker.serve(settings, note, world=world, stop=stop)

        nursery.start_soon(run)
        await ready.wait()
        stream = await trio.open_tcp_stream(started[0].host, started[0].port)
        try:
            yield Client(stream)
        finally:
            await stream.aclose()
            stop.set()


async def offset_of(client: Client, topic: str, partition: int, timestamp: int, *, committed: bool) -> int:
    """Return an offset by timestamp (-2: earliest, -1: latest); a negative result is an error code."""
    response = await client.call(
        ListOffsetsRequest(
            isolation_level=int(committed),
            topics=[
                ListOffsetsTopic(
                    name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
                )
            ],
        ),
        7,
    )
    answer = response.topics[0].partitions[0]
    offset: int = -answer.error_code if answer.error_code else answer.offset
    return offset


async def consume(client: Client, topic: str, partition: int, *, committed: bool) -> dict[str, Any]:
    """Consume a partition; return the offsets `start` and `end`, the `count` of records and their `crc`."""
    start = await offset_of(client, topic, partition, -2, committed=committed)
    end = await offset_of(client, topic, partition, -1, committed=committed)
    reading = Reading(committed)
    offset = start
    while offset < end:
        found = await client.fetch(topic, offset, partition=partition, isolation_level=int(committed))
        assert found.error_code == 0, found.error_code
        following = reading.take(found, offset)
        assert following > offset, f"{topic}-{partition} has no records at offset {offset}"
        offset = following
    return {"start": start, "end": end, "count": reading.count, "crc": f"{reading.crc:08x}"}


class Reading:
    """A checksum over the records that a consumer receives."""

    def __init__(self, committed: bool) -> None:
        self._committed = committed
        self._aborting: set[int] = set()
        self.count = self.crc = 0

    def take(self, answer: PartitionData, offset: int) -> int:
        """Add the records of a fetch at `offset`; return the next fetch offset."""
        aborted = sorted(answer.aborted_transactions or [], key=lambda one: one.first_offset)
        for batch in batches(answer.records or b""):
            while self._committed and aborted and aborted[0].first_offset <= batch.last_offset:
                self._aborting.add(aborted.pop(0).producer_id)
            if batch.is_control:
                if next(control_records(batch)).type == ControlType.ABORT:
                    self._aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in self._aborting):
                self._hand_on(batch, offset)
            offset = max(offset, batch.last_offset + 1)
        return offset

    def _hand_on(self, batch: Batch, offset: int) -> None:
        assert batch.crc_ok()
        for record in records(batch, BATCH_BYTES_MAX):
            if record.offset >= offset:
                self.count += 1
                self.crc = zlib.crc32(content(record, int(batch.is_log_append_time)), self.crc)


def content(record: Record, timestamp_type: int) -> bytes:
    """Return the bytes of a record over which the checksum is computed."""
    parts = [pack(">qqi", record.offset, record.timestamp, timestamp_type), sized(record.key), sized(record.value)]
    for name, value in record.headers:
        parts += (pack(">H", len(name.encode())), name.encode(), sized(value))
    return b"".join(parts)


def sized(data: bytes | None) -> bytes:
    """Return the length of a value, -1 for null, followed by its bytes."""
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data
