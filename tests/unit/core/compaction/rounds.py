"""In-memory logs, and rounds of compaction over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from pykbroker.core.compaction.compactor import Begin, Compact, Compacted, Compactor, Note, Noted, SegmentGroup
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.recovery.replay import recall
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder
from wire.records.control import transaction_marker
from wire.records.record import Record, records

NOW = 1_700_000_000_000
RETENTION_MS = 1000
BYTES_MAX = 1 << 20


class CompactedLog:
    """An in-memory log: its batches, and the producer state that recovery rebuilds from them."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def put(self, *pairs: tuple[bytes | None, bytes | None], **fields: Any) -> None:
        """Append one batch with a record for each (key, value) pair."""
        builder = BatchBuilder(base_offset=self.end, **fields)
        for key, value in pairs:
            builder.append(key, value, timestamp=NOW + builder.count)
        self.data += builder.build()
        self.end += builder.count

    def mark(self, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
        """Append a transaction marker."""
        self.data += transaction_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp=NOW,
            base_offset=self.end,
        )
        self.end += 1

    def known(self) -> tuple[Producers, list[AbortedTransaction]]:
        """Return the state that recovery rebuilds from the log."""
        producers = Producers()
        aborted = [one for batch in batches(self.data) if (one := recall(producers, batch))]
        return producers, aborted

    def compact(
        self, now_ms: int = NOW, *, first_dirty: int = 0, keys_max: int = 1000, piece: int = 1 << 20, live: bool = False
    ) -> int:
        """Compact the whole log in pieces; return the last offset whose key is in the offset map.

        With `live`, the state of all producers is kept.
        """
        producers, aborted = self.known()
        compactor = Compactor()
        ask(compactor, Begin(first_dirty, self.end, now_ms, RETENTION_MS, keys_max, aborted), None)
        noted, pos = Noted(), 0
        for pos in positions(self.data):
            if Batch.read(self.data, pos).last_offset >= first_dirty:
                break
        while pos < len(self.data) and not noted.is_full:
            noted = ask(compactor, Note(self.data[pos : pos + piece]), Noted)
            assert noted.damage is None
            pos += noted.taken
        alive = (
            {
                one.producer_id: (one.batches[-1].last_offset if one.batches else -1, one.epoch)
                for one in producers.entries()
            }
            if live
            else {}
        )
        ask(compactor, SegmentGroup(alive), None)
        left, pos = [], 0
        while pos < len(self.data):
            result = ask(compactor, Compact(self.data[pos : pos + piece]), Compacted)
            assert result.damage is None
            assert [
                (one.size, one.last_offset, one.max_timestamp) for one in batches(result.data, strict=True)
            ] == result.batches
            left.append(result.data)
            pos += result.taken
        self.data = b"".join(left)
        return noted.noted_offset

    def batches(self) -> list[Batch]:
        """Return all batches; assert that their checksums are valid."""
        found = list(batches(self.data, strict=True))
        assert all(one.crc_ok() for one in found)
        return found

    def records(self, *, committed: bool = False) -> list[Record]:
        """Return the records of data batches. With `committed`, leave out the records of aborted transactions."""
        _, aborted = self.known()
        return [
            record
            for batch in self.batches()
            if not batch.is_control
            and not (
                committed
                and any(
                    one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset <= one.last_offset
                    for one in aborted
                )
                and batch.is_transactional
            )
            for record in records(batch, BYTES_MAX)
        ]

    def pairs(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """Return (offset, key, value) of each record."""
        return [(one.offset, one.key, one.value) for one in self.records()]


def positions(data: bytes) -> Iterable[int]:
    """Yield the position of each batch."""
    pos = 0
    for batch in batches(data):
        yield pos
        pos += batch.size


def ask(compactor: Compactor, request: msgspec.Struct, answer: Any) -> Any:
    """Send an encoded request to the compactor and decode the response, as the worker process does."""
    return msgspec.msgpack.decode(compactor.handle(msgspec.msgpack.encode(request)), type=answer)


def view(found: Iterable[Record]) -> dict[bytes | None, bytes]:
    """Map each key to its last value, without keys whose last record is a tombstone."""
    last = {one.key: one.value for one in found}
    return {key: value for key, value in last.items() if value is not None}
