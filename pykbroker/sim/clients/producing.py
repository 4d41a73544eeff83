"""A producer under faults, and the check that it loses, repeats and reorders nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import BufferExhausted, MetadataTimeout
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer, RowsFailed
from pykbroker.sim.clients.stage import PARTITIONS, TOPIC, ClientStage

TASKS, SENDS, ROWS = 3, 100, 5
SLACK_S = 1.0
"""The time by which an outcome may be later than its limit."""
BATCH_BYTES, MEMORY_BYTES = 400, 2_000


class SentRecord(msgspec.Struct):
    """A record, and its outcome. `offset` is -1 unless the record is acknowledged."""

    value: bytes
    task: str
    partition: int
    began: float
    outcome: str = "unknown"
    offset: int = -1


class ProducerRun:
    """A producer whose tasks send numbered records while faults happen."""

    def __init__(self, stage: ClientStage, **settings: Any) -> None:
        self._stage, self._dice = stage, stage.simulation.dice("producer")
        dice = self._dice
        self.settings: dict[str, Any] = {
            "bootstrap_servers": stage.bootstrap,
            "linger_ms": dice.choice((0, 5, 20)),
            "batch_size": BATCH_BYTES,
            "buffer_memory": MEMORY_BYTES,
            "max_block_ms": dice.choice((500, 5_000, 60_000)),
            "request_timeout_ms": dice.choice((500, 2_000)),
            "retry_backoff_ms": dice.choice((20, 100)),
            "max_in_flight_requests_per_connection": dice.randint(1, 5),
            "metadata_max_age_ms": dice.choice((1_000, 300_000)),
            **settings,
        }
        least_ms = self.settings["linger_ms"] + self.settings["request_timeout_ms"]  # a lost answer meets the expiry
        self.settings.setdefault("delivery_timeout_ms", dice.choice((least_ms, 3_000, 10_000, 60_000)))
        self.records: list[SentRecord] = []

    async def run(self) -> None:
        """Send all records, and close the producer."""
        stage = self._stage
        opened = Producer(world=stage.world("producer"), **self.settings)
        async with opened as producer, trio.open_nursery() as nursery:
            for number in range(TASKS):
                nursery.start_soon(self._send_all, producer, f"task{number}", nursery)
        memory = producer.statistics()
        stage.expect(memory.buffer_available_bytes == MEMORY_BYTES, f"memory is not returned: {memory}")

    async def _send_all(self, producer: Producer, task: str, nursery: trio.Nursery) -> None:
        for number in range(SENDS):
            if self._dice.random() < 0.2:
                await self._send_rows(producer, task, number, nursery)
            else:
                await self._send_one(producer, task, number, nursery)
            available = producer.statistics().buffer_available_bytes
            self._stage.expect(0 <= available <= MEMORY_BYTES, f"{available} bytes of memory are free")
            await trio.sleep(self._dice.expovariate(5))

    async def _send_one(self, producer: Producer, task: str, number: int, nursery: trio.Nursery) -> None:
        record = self._record(task, number)
        with trio.move_on_after(self._patience_s()) as scope:
            try:
                delivery = await producer.send(TOPIC, record.value, partition=record.partition)
            except (BufferExhausted, MetadataTimeout):
                record.outcome = "refused"
                limit_s = self.settings["max_block_ms"] / 1000
                self._expect_within(record, limit_s, "a call of send")
                return
        if scope.cancelled_caught:
            record.outcome = "refused"
            return
        record.began = trio.current_time()
        nursery.start_soon(self._settle, record, delivery)

    async def _send_rows(self, producer: Producer, task: str, number: int, nursery: trio.Nursery) -> None:
        first = self._record(task, number)
        rows = [first, *(self._record(task, number, row, first.partition) for row in range(1, ROWS))]
        try:
            delivery = await producer.send_many(TOPIC, [row.value for row in rows], partition=first.partition)
        except (BufferExhausted, MetadataTimeout):
            for row in rows:
                row.outcome = "refused"
            return
        for row in rows:
            row.began = trio.current_time()
        nursery.start_soon(self._settle_rows, rows, delivery)

    async def _settle(self, record: SentRecord, delivery: Any) -> None:
        try:
            record.offset = (await delivery).offset
            record.outcome = "acknowledged"
        except ApiError:
            record.outcome = "failed"
        self._expect_within(record, self.settings["delivery_timeout_ms"] / 1000, "a delivery")

    async def _settle_rows(self, rows: list[SentRecord], delivery: Any) -> None:
        try:
            offsets = (await delivery).offsets
        except RowsFailed as failed:
            offsets = failed.offsets
        for row, offset in zip(rows, offsets, strict=True):
            row.outcome, row.offset = "acknowledged" if offset >= 0 else "failed", offset

    def _record(self, task: str, number: int, row: int = 0, partition: int | None = None) -> SentRecord:
        value = f"{task} {number:03} {row} ".encode().ljust(self._dice.choice((20, 60, 150)), b".")
        partition = self._dice.randrange(PARTITIONS) if partition is None else partition
        record = SentRecord(value, task, partition, trio.current_time())
        self.records.append(record)
        return record

    def _patience_s(self) -> float:
        """Return the time after which a call of send is cancelled."""
        return self._dice.choice((1e9, 1e9, 1e9, 0.05))

    def _expect_within(self, record: SentRecord, limit_s: float, subject: str) -> None:
        took = trio.current_time() - record.began
        self._stage.expect(took <= limit_s + SLACK_S, f"time-out: {subject} took {took:.1f} of {limit_s} s")

    # ---- the check

    def check(self, *, idempotent: bool) -> None:
        """Compare the logs with the outcomes."""
        logs = [self._values(index) for index in range(PARTITIONS)]
        counts = Counter(value for log in logs for value in log)
        expect = self._stage.expect
        for record in self.records:
            count = counts[record.value]
            name = record.value[:12]
            if record.outcome == "acknowledged":
                at = logs[record.partition].get(record.value, [])
                expect(record.offset in at, f"lost: {name!r} is acknowledged at {record.offset}, and is at {at}")
            if record.outcome == "refused":
                expect(count == 0, f"phantom: {name!r} was refused")
            expect(record.outcome != "unknown", f"forgotten: {name!r} has no outcome")
            expect(count <= 1 or not idempotent, f"doubled: {name!r} is at {logs[record.partition].get(record.value)}")
        expect(counts.keys() <= {record.value for record in self.records}, "invented: a record was never sent")
        if idempotent:
            for log in logs:
                self._check_order(log)

    def _check_order(self, log: dict[bytes, list[int]]) -> None:
        """Expect the records of each task in the order of their calls."""
        last: dict[bytes, bytes] = {}
        for value in log:
            task = value[:5]
            self._stage.expect(
                last.get(task, b"") < value[:12], f"reordered: {value[:12]!r} is after {last.get(task)!r}"
            )
            last[task] = value[:12]

    def _values(self, index: int) -> dict[bytes, list[int]]:
        """Return the offsets of each value of a partition, in the order of the log."""
        found: dict[bytes, list[int]] = {}
        for record in self._stage.state.log(TopicPartition(TOPIC, index)).records:
            found.setdefault(bytes(record.value or b""), []).append(record.offset)
        return found
