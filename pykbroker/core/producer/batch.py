"""A batch of the producer: records of one partition as columns, which are encoded once, and their common outcome."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pykbroker.core.sequence_numbers import SEQUENCE_MASK
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import Buffer
from wire.records.batch import HEADER_BYTES, TRANSACTIONAL, Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.columns import encode_records
from wire.records.compression import Codec
from wire.records.record import Headers, records
from wire.records.zigzag import varint
from wire.sentinels import NO_LEADER_EPOCH, NO_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

RECORDS_MAX = 1 << 20
"""The maximum number of records in a batch: their offset deltas take at most three bytes."""
SMALL_BYTES_MAX = 8000
"""The bytes of key, value and headers up to which the length of a record and the lengths in it take two bytes each."""
SMALL_OVERHEAD_BYTES, OVERHEAD_BYTES = 11, 20
"""The maximum bytes of a record beside key, value, headers and timestamp, for a small and for a larger record."""
HEADER_OVERHEAD_BYTES = 11
"""The maximum bytes of a header beside its key and value, and its share of the header count."""
TIMESTAMP_MIN, TIMESTAMP_MAX = -(1 << 63), (1 << 63) - 1
"""The limits of a timestamp in ms since 1970, and of its distance to the first timestamp of its batch."""
CONTENT_BYTES_MAX = 1 << 31
"""The maximum bytes of the records of a batch, which is the limit of the format."""


class BatchState(NamedTuple):
    """The producer id, epoch and first sequence number of a batch, and whether a transaction includes the batch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False


class BatchOutcome(NamedTuple):
    """The result of a batch: the offset of its first record and the broker's append time in ms, or an error.

    `record_errors` has the errors of single records, by index. The other records of such a batch fail with `error`.
    """

    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_TIMESTAMP
    error: Exception | None = None
    record_errors: Mapping[int, Exception] = {}


class RecordResult(NamedTuple):
    """The offset and the timestamp in ms of a record that was written. With acks=0, the offset is -1."""

    offset: int
    timestamp: int


class ProducerBatch:
    """Records for one partition. A batch takes records while it is open, is encoded once closed, and gets one outcome.

    `size` is an upper bound of the encoded bytes before compression. Records are accepted until `size` would exceed
    `bytes_max`; only the first record may exceed it. `reserved` are the bytes that the batch has taken from the buffer
    pool, and `size` never exceeds them.
    """

    __slots__ = (
        "_callbacks",
        "_data",
        "_headers",
        "_keys",
        "_parts",
        "_runs",
        "_stamp_bytes",
        "_timestamp",
        "_values",
        "attempts",
        "bytes_max",
        "count",
        "created_ms",
        "is_closed",
        "leader_epoch",
        "loop",
        "may_be_written",
        "outcome",
        "parent",
        "partition",
        "reserved",
        "retry_at_ms",
        "size",
        "state",
    )

    def __init__(self, partition: TopicPartition, bytes_max: int, reserved: int, now_ms: float) -> None:
        self.partition, self.bytes_max, self.reserved = partition, bytes_max, reserved
        self.created_ms = now_ms
        self.size, self.count = HEADER_BYTES, 0
        self.state = BatchState()
        self.attempts = 0
        self.retry_at_ms = 0.0
        """The time before which the batch is not sent again, unless its partition gets another leader."""
        self.leader_epoch = NO_LEADER_EPOCH
        """The leader epoch of the partition at the last attempt."""
        self.is_closed = False
        self.loop: object = None
        """The event loop in which the outcome may be awaited. None says that any thread may wait."""
        self.may_be_written = False
        """Whether an earlier attempt ended without saying if the batch was written."""
        self.outcome: BatchOutcome | None = None
        self._values: list[Buffer | None] = []
        self._keys: list[Buffer | None] | None = None
        self._headers: list[Headers] | None = None
        self._runs: list[tuple[int, int]] = []
        """The timestamp and the index of the first record of each run of equal timestamps."""
        self._timestamp, self._stamp_bytes = TIMESTAMP_MIN - 1, 1
        """The timestamp of the last record, and the bytes of its encoded delta."""
        self._callbacks: list[Callable[[], None]] = []
        self.parent: ProducerBatch | None = None
        """The batch that was split into this one and others."""
        self._parts: list[tuple[int, ProducerBatch]] = []
        """The batches that this one was split into, with the index of their first record."""
        self._data: bytes | None = None

    @property
    def is_full(self) -> bool:
        """Whether the batch accepts no further record."""
        return self.is_closed or self.size >= self.bytes_max or self.count >= RECORDS_MAX

    @property
    def is_settled(self) -> bool:
        """Whether the outcome of every record is known."""
        return all(part.is_settled for _, part in self._parts) if self._parts else self.outcome is not None

    @property
    def encoded_bytes(self) -> int:
        """Return the size of the encoded batch, or the upper bound before it is encoded."""
        return self.size if self._data is None else len(self._data)

    # ---- records

    def try_append(self, key: Buffer | None, value: Buffer | None, headers: Headers, timestamp: int) -> int | None:
        """Append a record and return its index, or None if the batch has no room. `timestamp` is in ms since 1970."""
        size = SMALL_OVERHEAD_BYTES
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            size += headers_bytes_max(headers)
        if size > SMALL_BYTES_MAX:
            size += OVERHEAD_BYTES - SMALL_OVERHEAD_BYTES
        size += self._stamp_bytes if timestamp == self._timestamp else self.stamp_bytes(timestamp)
        size += self.size
        index = self.count
        if size > self.reserved or (size > self.bytes_max and index) or self.is_closed or index >= RECORDS_MAX:
            return None
        try:
            if timestamp != self._timestamp:
                self._begin_run(index, timestamp)
            self._values.append(value)
            if key is not None or self._keys is not None:
                self._add_key(index, key)
            if headers or self._headers is not None:
                self._add_headers(index, headers)
        # A signal handler may raise an error at any of these lines: see 7 of `accumulator`.
        except BaseException:
            self._cut()
            raise
        self.size, self.count = size, index + 1
        return index

    def append_columns(
        self,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None,
        headers: Sequence[Headers] | None,
        timestamp: int,
        size: int,
    ) -> None:
        """Append records that have one timestamp.

        `size` is an upper bound of their encoded bytes. The caller has checked that the batch is open and that the
        records fit.
        """
        index = self.count
        count = index + len(values)
        try:
            if timestamp != self._timestamp:
                self._begin_run(index, timestamp)
            self._values += values
            if keys is not None or self._keys is not None:
                if self._keys is None:
                    self._keys = [None] * index
                self._keys += [None] * len(values) if keys is None else keys
            if headers is not None or self._headers is not None:
                if self._headers is None:
                    self._headers = [()] * index
                self._headers += [()] * len(values) if headers is None else headers
        except BaseException:
            self._cut()
            raise
        self.size, self.count = self.size + size, count

    def _cut(self) -> None:
        """Remove what an interrupted append has left behind `count` records."""
        for column in (self._values, self._keys, self._headers):
            if column is not None:
                del column[self.count :]
        self._runs = [run for run in self._runs if run[1] < self.count]
        self._timestamp = self._runs[-1][0] if self._runs else TIMESTAMP_MIN - 1
        self._stamp_bytes = self.stamp_bytes(self._timestamp) if self._runs else 1

    def stamp_bytes(self, timestamp: int) -> int:
        """Return the bytes of the encoded timestamp of a further record, or more than a batch has."""
        if not self._runs:
            return 1
        return len(varint(timestamp - self._runs[0][0])) if self.takes_time(timestamp) else CONTENT_BYTES_MAX

    def takes_time(self, timestamp: int) -> bool:
        """Whether the distance of a timestamp to the first one of the batch has at most 64 bits."""
        return not self._runs or TIMESTAMP_MIN <= timestamp - self._runs[0][0] <= TIMESTAMP_MAX

    def _begin_run(self, index: int, timestamp: int) -> None:
        self._stamp_bytes, self._timestamp = self.stamp_bytes(timestamp), timestamp
        self._runs.append((timestamp, index))

    def _add_key(self, index: int, key: Buffer | None) -> None:
        if self._keys is None:
            self._keys = [None] * index
        self._keys.append(key)

    def _add_headers(self, index: int, headers: Headers) -> None:
        if self._headers is None:
            self._headers = [()] * index
        self._headers.append(headers)

    # ---- sending

    def close(self) -> None:
        """Accept no further records."""
        self.is_closed = True

    def set_state(self, state: BatchState) -> None:
        """Set the producer's state. An encoded batch is sealed again if the state changes."""
        if state == self.state:
            return
        self.state = state
        if self._data is not None:
            header = Batch.read(self._data)
            fields = {
                "producer_id": state.producer_id,
                "producer_epoch": state.epoch,
                "base_sequence": state.base_sequence,
                "attributes": header.attributes & ~TRANSACTIONAL | TRANSACTIONAL * state.transactional,
            }
            self._data = sealed(replace(header, **fields), header.payload)

    def encode(self, codec: Codec, level: int | None = None) -> bytes:
        """Close the batch and return its bytes, which are kept for retries. The columns are dropped."""
        self.is_closed = True
        if self._data is None:
            builder = BatchBuilder(
                codec,
                level,
                base_timestamp=self._runs[0][0],
                producer_id=self.state.producer_id,
                producer_epoch=self.state.epoch,
                base_sequence=self.state.base_sequence,
                transactional=self.state.transactional,
                max_timestamp=max(NO_TIMESTAMP, max(timestamp for timestamp, _ in self._runs)),
                count=self.count,
            )
            for run in self._encoded_runs():
                builder.payload += run
            self._data = builder.build()
            self._values, self._keys, self._headers = [], None, None
        return self._data

    def _encoded_runs(self) -> Iterator[bytes]:
        """Yield the encoded records of each run of equal timestamps."""
        base = self._runs[0][0]
        ends = [start for _, start in self._runs[1:]] + [self.count]
        for (timestamp, start), end in zip(self._runs, ends, strict=True):
            yield encode_records(
                self._values[start:end],
                None if self._keys is None else self._keys[start:end],
                None if self._headers is None else self._headers[start:end],
                timestamp - base,
                start,
            )

    def split(self, bytes_max: int) -> list[ProducerBatch]:
        """Return the records of this encoded batch as several batches of at most `bytes_max` bytes.

        A batch has one record at least. The batches continue the sequence of this one, so none of their records can be
        written twice. Their outcomes become the outcome of this batch, which keeps the memory of the pool until the
        last one.
        """
        assert self._data is not None, "only a batch that was sent is split"
        source, start = Batch.read(self._data), 0
        part: ProducerBatch | None = None
        for index, record in enumerate(records(source, CONTENT_BYTES_MAX)):
            row = (record.key, record.value, record.headers, record.timestamp)
            if part is None or part.try_append(*row) is None:
                start = index
                part = self._part(start, max(bytes_max, record_bytes_max(record.key, record.value, record.headers)))
                part.try_append(*row)
            # Only the first record may make a batch larger.
            part.bytes_max = bytes_max
        for _, part in self._parts:
            part.close()
            part.parent = self
        return [part for _, part in self._parts]

    def _part(self, start: int, bytes_max: int) -> ProducerBatch:
        part = ProducerBatch(self.partition, bytes_max, bytes_max, self.created_ms)
        part.attempts, part.leader_epoch = self.attempts, self.leader_epoch
        if self.state.base_sequence >= 0:
            part.state = self.state._replace(base_sequence=(self.state.base_sequence + start) & SEQUENCE_MASK)
        self._parts.append((start, part))
        return part

    # ---- the outcome

    def settle(self, outcome: BatchOutcome) -> bool:
        """Set the outcome. Return False if the batch already has one. The waiters are not called yet."""
        if self.outcome is not None:
            return False
        self.is_closed, self.outcome = True, outcome
        return True

    def unsettled(self) -> list[ProducerBatch]:
        """Return this batch, or the batches that it was split into, as far as they have no outcome."""
        if self._parts:
            return [found for _, part in self._parts for found in part.unsettled()]
        return [] if self.outcome is not None else [self]

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Let `take_waiters` return this callback. The outcome of a record must still be unknown."""
        assert not self.is_settled, "a settled batch calls nobody"
        self._callbacks.append(callback)

    def take_waiters(self) -> list[Callable[[], None]]:
        """Return the callbacks that wait for this batch, and for a batch that it completes. Each is returned once."""
        waiters, self._callbacks = (self._callbacks, []) if self.is_settled else ([], self._callbacks)
        return waiters if self.parent is None else waiters + self.parent.take_waiters()

    def result_of(self, index: int) -> RecordResult:
        """Return the result of a record, once its outcome is known. Raise its error if it was not written."""
        if self._parts:
            place = bisect_right(self._parts, index, key=lambda part: part[0]) - 1
            start, part = self._parts[place]
            return part.result_of(index - start)
        outcome = self.outcome
        assert outcome is not None, "the batch has no outcome yet"
        if outcome.error is not None:
            raise outcome.record_errors.get(index, outcome.error)
        timestamp = outcome.append_time_ms
        if timestamp == NO_TIMESTAMP:
            timestamp = self._runs[bisect_right(self._runs, index, key=lambda run: run[1]) - 1][0]
        return RecordResult(NO_OFFSET if outcome.base_offset < 0 else outcome.base_offset + index, timestamp)

    def offsets(self, index: int, count: int) -> tuple[Sequence[int], dict[int, Exception]]:
        """Return the offsets of `count` records from `index` on, and the errors of those that failed.

        The errors are by the number of the record, counted from 0 for the one at `index`. The offset of a record that
        failed, or that was sent with acks=0, is -1.
        """
        outcome = self.outcome
        if not self._parts and outcome is not None and outcome.error is None:
            first = outcome.base_offset
            return range(first + index, first + index + count) if first >= 0 else [-1] * count, {}
        offsets, errors = [-1] * count, dict[int, Exception]()
        for place in range(count):
            try:
                offsets[place] = self.result_of(index + place).offset
            except Exception as error:  # noqa: BLE001 - the caller gets the error of each record
                errors[place] = error
        return offsets, errors


def headers_bytes_max(headers: Headers) -> int:
    """Return an upper bound of the encoded bytes of headers."""
    return sum(
        HEADER_OVERHEAD_BYTES + len(name.encode()) + (0 if value is None else len(value)) for name, value in headers
    )


def record_bytes_max(key: Buffer | None, value: Buffer | None, headers: Headers) -> int:
    """Return an upper bound of the encoded bytes of a batch that has one record."""
    size = HEADER_BYTES + OVERHEAD_BYTES + 1 + headers_bytes_max(headers)
    if key is not None:
        size += len(key)
    return size if value is None else size + len(value)
