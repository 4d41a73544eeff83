"""Tests of reading the logs of coordinators: runs of committed offsets, compared with reading record by record.

A run is a sequence of similar offset commits in one batch, which is decoded at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.coordinator.batches import OPENED_BYTES_MAX, Batches, opened
from pykbroker.core.coordinator.record import StoredRecord
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.offsets import read_run
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.log.producers import Marker
from pykbroker.core.outcome import Entry
from wire.declare import STRING_BYTES_MAX
from wire.errors import DecodeError
from wire.records.batch import HEADER_BYTES, Batch, batches
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec
from wire.records.control import transaction_marker
from wire.records.zigzag import varint
from wire.stored.classic_group import GroupMetadataKey, GroupMetadataValue
from wire.stored.framing import CoordinatorKey, CoordinatorValue, RecordRun, encode_key, encode_versioned
from wire.stored.group import GROUP_RECORDS
from wire.stored.group_offsets import LegacyOffsetCommitKey, LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from wire.stored.offset_run import RUN_RECORDS_MAX, RUN_RECORDS_MIN, SHAPES_MAX, OffsetRun

IN_RUNS, ONE_BY_ONE = Batches(GROUP_RECORDS, 0, read_run=read_run), Batches(GROUP_RECORDS, 0)
NARROW_MAX = 64
"""The number of offset deltas, counted from 0, whose varint takes one byte."""
TOPIC_ID = bytes(range(16))
NIL = bytes(16)

Stored = tuple[bytes | None, bytes | None]


def commit(
    partition: int,
    offset: int = 5,
    *,
    group: str = "g",
    topic: str = "t",
    version: int = 4,
    topic_id: bytes = NIL,
    metadata: str = "",
    leader_epoch: int = 3,
    time_ms: int = 1_700_000_000_000,
) -> Stored:
    value = OffsetCommitValue(offset, leader_epoch if version >= 3 else -1, metadata, time_ms, topic_id=topic_id)
    return encode_key(OffsetCommitKey(group, topic, partition)), encode_versioned(value, version)


def other(key: CoordinatorKey, value: CoordinatorValue | None = None, version: int = 0) -> Stored:
    return encode_key(key), None if value is None else encode_versioned(value, version)


def batch_of(
    stored: list[Stored], deltas: list[int] | None = None, times: list[int] | None = None, **header: Any
) -> Batch:
    """Return a batch of the given records at base offset 1000; gaps in `deltas` stand for compacted records."""
    deltas = list(range(len(stored))) if deltas is None else deltas
    payload = b""
    for place, (key, value) in enumerate(stored):
        body = b"\0" + varint(times[place] if times else 0) + varint(deltas[place])
        for part in (key, value):
            body += varint(-1) if part is None else varint(len(part)) + part
        body += b"\0"
        payload += varint(len(body)) + body
    builder = BatchBuilder(base_offset=1000, base_timestamp=0, **header)
    builder.append(b"", b"")
    (random_records,) = batches(builder.build())
    return carrying(replace(random_records, count=len(stored), last_offset_delta=deltas[-1] if deltas else 0), payload)


def carrying(batch: Batch, payload: bytes) -> Batch:
    """Return the batch with another payload and an unchanged header."""
    (changed,) = batches(sealed(batch, payload))
    return changed


def state(machine: GroupMachine) -> Any:
    shard = machine._shard
    offsets = shard.offsets
    return list(shard.groups), offsets._groups, offsets._pending, offsets._open


def entries(framing: Batches, batch: Batch, start_offset: int = 0) -> Iterator[Entry[StoredRecord]]:
    (data,) = opened([batch])
    if isinstance(data, DecodeError):
        raise data
    return framing.read(batch, data, start_offset)


def replayed(framing: Batches, *read: Batch, start_offset: int = 0) -> Any:
    """Return the group state after replaying the batches, or "damaged" if one cannot be read."""
    machine = GroupMachine(GroupSettings(), Random(1))
    try:
        for batch in read:
            for entry in entries(framing, batch, start_offset):
                machine.replay(entry)
    except DecodeError:
        return "damaged"
    return state(machine)


def runs(batch: Batch) -> list[int]:
    """Return the number of records in each entry of the batch."""
    return [entry.value.count if isinstance(entry.value, RecordRun) else 1 for entry in entries(IN_RUNS, batch)]


@pytest.mark.parametrize(
    ("version", "topic_id", "metadata"),
    [
        (4, NIL, ""),
        (4, TOPIC_ID, ""),
        (4, TOPIC_ID, "m\u00e4x"),
        (4, NIL, "x" * 200),
        (3, NIL, ""),
        (3, NIL, "m\u00e4x"),
    ],
)
def test_offset_commits_are_read_as_runs(version: int, topic_id: bytes, metadata: str) -> None:
    batch = batch_of(
        [
            commit(place, place * 10**9, version=version, topic_id=topic_id, metadata=metadata)
            for place in range(NARROW_MAX + 36)
        ]
    )
    read = list(entries(IN_RUNS, batch))
    assert [entry.value.count for entry in read if isinstance(entry.value, OffsetRun)] == [NARROW_MAX, 36]
    assert replayed(IN_RUNS, batch) == replayed(ONE_BY_ONE, batch)
    held = replayed(IN_RUNS, batch)[1]["g"]["t"][NARROW_MAX]
    assert (held.offset, held.leader_epoch, held.metadata) == (NARROW_MAX * 10**9, 3, metadata)
    assert (held.topic_id, held.expire_ms, held.record_offset) == (topic_id, -1, 1000 + NARROW_MAX)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (RUN_RECORDS_MAX - 1, [RUN_RECORDS_MAX - 1]),
        (RUN_RECORDS_MAX, [RUN_RECORDS_MAX]),
        (RUN_RECORDS_MAX + 1, [RUN_RECORDS_MAX, 1]),
    ],
)
def test_the_length_of_a_run_is_limited(count: int, expected: list[int]) -> None:
    batch = batch_of([commit(place) for place in range(count)], [NARROW_MAX + place for place in range(count)])
    assert runs(batch) == expected


@pytest.mark.parametrize("count", [RUN_RECORDS_MIN - 1, RUN_RECORDS_MIN, RUN_RECORDS_MIN + 1])
def test_a_run_has_a_minimum_length(count: int) -> None:
    values = [entry.value for entry in entries(IN_RUNS, batch_of([commit(place) for place in range(count)]))]
    assert [isinstance(value, OffsetRun) for value in values] == [count >= RUN_RECORDS_MIN]


def test_more_record_layouts_than_the_cache_holds_are_read() -> None:
    stored = [commit(0, topic="t" * size) for size in range(1, SHAPES_MAX + 2)]
    for _ in range(2):
        groups = replayed(IN_RUNS, batch_of(stored))[1]
        assert [len(topic) for topic in groups["g"]] == list(range(1, SHAPES_MAX + 2))


@pytest.mark.parametrize(
    "stored",
    [
        commit(1, version=2),
        other(OffsetCommitKey("g", "t", 1)),
        other(OffsetCommitKey("g", "t", 0)),
        other(LegacyOffsetCommitKey("g", "t", 0), LegacyOffsetCommitValue(9, "", 7)),
        other(GroupMetadataKey("g"), GroupMetadataValue("consumer", 3, "range", "m", 4), 3),
        other(GroupMetadataKey("g")),
        (b"\x7f\xff", b""),
        commit(1, topic="u"),
        commit(1, group="h"),
        commit(1, metadata="x"),
        commit(1, version=3),
        commit(0, 99),
        commit(1, topic_id=TOPIC_ID),
        commit(1, version=1),
    ],
)
def test_a_record_that_does_not_fit_a_run_is_read_in_its_position(stored: Stored) -> None:
    around = [commit(place) for place in range(4)]
    batch = batch_of([*around, stored, *around[2:]])
    assert replayed(IN_RUNS, batch) == replayed(ONE_BY_ONE, batch) != "damaged"
    assert len(runs(batch)) < 7


@pytest.mark.parametrize(
    "stored",
    [
        (b"\x00\x01", b"\x00\x04"),
        (commit(1)[0], b"\x00\x05" + bytes(22)),
        (b"\x00\x01\xff\xff", commit(1)[1]),
        (b"\x00\x01\x00\x01\xff\x00\x01t\0\0\0\0", commit(1)[1]),
        (commit(1)[0], (commit(1, metadata="x")[1] or b"").replace(b"x", b"\xff")),
        (b"\x00\x01\x7f\xff" + b"g" * 32767 + b"\x7f\xfft", commit(1)[1]),
        (commit(1)[0], (commit(1)[1] or b"")[:-1]),
        (commit(1)[0], (commit(1, version=3)[1] or b"")[:-1]),
        (b"", b""),
    ],
)
def test_a_damaged_record_is_refused_within_a_run_as_outside_of_one(stored: Stored) -> None:
    batch = batch_of([commit(0), stored, commit(1)])
    assert replayed(IN_RUNS, batch) == replayed(ONE_BY_ONE, batch) == "damaged"


@pytest.mark.parametrize("size", [STRING_BYTES_MAX - 1, STRING_BYTES_MAX, STRING_BYTES_MAX + 1])
def test_offset_metadata_may_be_as_long_as_a_string_field(size: int) -> None:
    key, value = commit(0, metadata="x")
    length = bytes(((size + 1) & 0x7F | 0x80, (size + 1) >> 7 & 0x7F | 0x80, size + 1 >> 14))
    long = (value or b"").replace(b"\x02x", length + b"x" * size)
    batch = batch_of([(key, long)])
    assert replayed(IN_RUNS, batch) == replayed(ONE_BY_ONE, batch)
    assert (replayed(IN_RUNS, batch) == "damaged") == (size > STRING_BYTES_MAX)


def test_an_offset_delta_beyond_the_last_offset_is_refused() -> None:
    batch = batch_of([commit(place) for place in range(3)], [0, 1, 2])
    for last_delta, expected in ((2, False), (1, True)):
        changed = carrying(replace(batch, last_offset_delta=last_delta), bytes(batch.payload))
        assert (replayed(IN_RUNS, changed) == "damaged") is expected
        assert replayed(IN_RUNS, changed) == replayed(ONE_BY_ONE, changed)


def test_records_below_the_log_start_offset_are_not_read() -> None:
    batch = batch_of([commit(place) for place in range(5)])
    for start in (1000, 1002, 1004, 1005):
        held = replayed(IN_RUNS, batch, start_offset=start)
        assert held == replayed(ONE_BY_ONE, batch, start_offset=start)
        assert [*held[1].get("g", {}).get("t", ())] == [place for place in range(5) if 1000 + place >= start]


def test_transactional_offsets_apply_once_their_marker_is_replayed() -> None:
    batch = batch_of([commit(place) for place in range(5)], producer_id=7, producer_epoch=0, transactional=True)
    (first,) = entries(IN_RUNS, batch)
    assert isinstance(first.value, OffsetRun)
    assert first.producer_id == 7
    machine = GroupMachine(GroupSettings(), Random(1))
    machine.replay(first)
    assert state(machine) == replayed(ONE_BY_ONE, batch)
    assert state(machine)[1] == {}
    (marker,) = batches(
        transaction_marker(
            commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=1005
        )
    )
    assert [entry.value for entry in entries(IN_RUNS, marker, 1006)] == []
    assert isinstance(next(iter(entries(IN_RUNS, marker, 1005))).value, Marker)
    machine.replay(Entry(1005, Marker(7, 0, True, 0)))
    assert list(state(machine)[1]["g"]["t"]) == list(range(5))
    assert replayed(IN_RUNS, batch, marker) == replayed(ONE_BY_ONE, batch, marker) == state(machine)


def random_records(random: Random) -> list[Stored]:
    """Return random records of a coordinator's log: mostly offset commits, group after group, and a few
    other records.
    """
    stored: list[Stored] = []
    for _ in range(random.randint(1, 6)):
        group, topic = random.choice(["g", "g2", "gr\u00fcn"]), random.choice(["t", "topic", "u"])
        version, metadata = random.choice([4, 4, 4, 3, 3, 2, 1, 0]), random.choice(["", "", "m", "n", "\u00e4"])
        topic_id = random.choice([NIL, TOPIC_ID]) if version == 4 else NIL
        stored += [
            commit(
                random.randrange(12),
                random.randrange(1 << 40),
                group=group,
                topic=topic,
                version=version,
                topic_id=topic_id,
                metadata=metadata,
                time_ms=random.choice([1, 2]),
            )
            for _ in range(random.choice([1, 2, 5, 30, 70]))
        ]
        if random.random() < 0.4:
            stored.append(other(OffsetCommitKey(group, topic, random.randrange(12))))
        if random.random() < 0.2:
            stored.append((b"\x00\x63", b"of a newer broker"))
    return stored


def random_batch(random: Random) -> Batch:
    stored = random_records(random)
    step = random.choice([1, 1, 3, 200])
    deltas = sorted(random.sample(range(len(stored) * step), len(stored)))
    times = [random.choice([0, 0, 0, 1, 64, 70]) for _ in stored] if random.random() < 0.5 else None
    header = {"producer_id": 7, "producer_epoch": 0, "transactional": True} if random.random() < 0.3 else {}
    return batch_of(stored, deltas, times, **header)


def damaged_copies(random: Random, batch: Batch) -> Iterator[Batch]:
    """Yield damaged copies of the batch: with one byte changed, truncated, and one byte longer."""
    payload = bytes(batch.payload)
    for _ in range(10):
        changed = bytearray(payload)
        changed[random.randrange(len(changed))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)])
        yield carrying(batch, bytes(changed))
    yield carrying(batch, payload[: -random.randint(1, 20)])
    yield carrying(batch, payload + b"\0")


@pytest.mark.parametrize("seed", range(60))
def test_runs_have_the_same_effect_as_their_single_records(seed: int) -> None:
    random = Random(seed)
    first, second = random_batch(random), random_batch(random)
    assert replayed(IN_RUNS, first, second) == replayed(ONE_BY_ONE, first, second) != "damaged"
    for changed in damaged_copies(random, second):
        assert replayed(IN_RUNS, first, changed) == replayed(ONE_BY_ONE, first, changed)


@pytest.mark.parametrize(
    ("size", "count"), [(OPENED_BYTES_MAX - 1, 2), (OPENED_BYTES_MAX, 1), (OPENED_BYTES_MAX + 1, 1)]
)
def test_batches_are_decompressed_together_up_to_a_size_limit(size: int, count: int) -> None:
    batch = batch_of([commit(0)])
    content = bytes(size)
    assert len(opened([carrying(batch, content), batch, batch][:2])) == count
    assert opened([carrying(batch, content), batch])[0] == content


def test_batches_before_a_corrupt_batch_are_still_returned() -> None:
    batch = batch_of([commit(0)])
    damaged = carrying(replace(batch, attributes=Codec.ZSTD), b"no frame")
    sound, error = opened([batch, damaged, batch])
    assert not isinstance(sound, DecodeError)
    assert memoryview(sound) == batch.payload
    assert isinstance(error, DecodeError)
    assert (error.__traceback__, error.__context__) == (None, None), (
        "the error keeps no reference to the decompressed data"
    )


def test_a_compressed_batch_is_read_as_runs() -> None:
    builder = BatchBuilder(Codec.ZSTD)
    for key, value in (commit(place) for place in range(10)):
        builder.append(key, value)
    (batch,) = batches(builder.build())
    assert batch.size - HEADER_BYTES < 200
    assert runs(batch) == [10]
