"""Tests of the pure parts of the storage: indexes, verified ranges, batches kept in memory, checkpoints and names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files import checkpoints
from pykbroker.storage.files.checkpoints import CorruptCheckpoint
from pykbroker.storage.files.meta_properties import CorruptMeta, MetaProperties
from pykbroker.storage.files.partition_directory import (
    DELETE,
    DELETED_NAME,
    away_name,
    decode_metadata,
    directory_name,
    encode_metadata,
    parse_name,
)
from pykbroker.storage.recovery.producer_snapshot import CorruptSnapshot, decode, encode
from pykbroker.storage.segments.checked import Checked
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.indexes import CorruptIndex, OffsetIndex, TimeIndex
from pykbroker.storage.segments.tail import BYTES_KEPT_MAX, KEEP_BYTES_MAX, Tail

RISING = st.lists(st.integers(1, 2**31 - 1), max_size=40, unique=True).map(sorted)
BASE = 10**12


@given(RISING, RISING, st.integers(0, 2**31))
def test_an_offset_index_finds_the_last_batch_that_ends_at_or_before_an_offset(
    relative: list[int], positions: list[int], at: int
) -> None:
    entries = list(zip(relative, positions, strict=False))
    index = OffsetIndex(BASE)
    for last, position in entries:
        index.add(BASE + last, position)
    again = OffsetIndex.decode(BASE, index.encode(), 2**31)
    for one in (index, again):
        assert one.find(BASE + at) == max(((BASE + last, p) for last, p in entries if last <= at), default=None)
        assert one.find_position(at) == max(((BASE + last, p) for last, p in entries if p <= at), default=None)
    assert (
        again.encode()
        == index.encode()
        == b"".join(last.to_bytes(4, "big") + position.to_bytes(4, "big") for last, position in entries)
    )


@given(RISING, st.lists(st.integers(0, 2**62), max_size=40), st.integers(0, 2**62))
def test_a_time_index_finds_the_offset_to_search_from(relative: list[int], timestamps: list[int], at: int) -> None:
    index = TimeIndex(BASE)
    entries: list[Any] = []
    for last, timestamp in zip(relative, timestamps, strict=False):
        index.add(timestamp, BASE + last)
        if not entries or timestamp > entries[-1][0]:
            entries.append((timestamp, last))
    again = TimeIndex.decode(BASE, index.encode(), BASE + 2**31)
    for one in (index, again):
        assert one.find_below(at) == max(((t, BASE + last) for t, last in entries if t < at), default=None)
    assert index.encode() == b"".join(
        timestamp.to_bytes(8, "big") + last.to_bytes(4, "big") for timestamp, last in entries
    )


WORDS = st.lists(st.integers(-1, 12) | st.integers(998, 1001), max_size=9).map(
    lambda words: b"".join(word.to_bytes(4, "big", signed=True) for word in words)
)
"""Text that resembles the entries of a checkpoint."""


@given(WORDS | st.binary(max_size=60))
def test_decoding_random_bytes_gives_corrupt_index_or_an_ascending_index(data: bytes) -> None:
    try:
        index = OffsetIndex.decode(BASE, data, 1000)
        entries = [index.entry(at) for at in range(len(index))]
        assert entries == sorted(entries)
        assert all(last >= BASE and 0 < position < 1000 for last, position in entries)
    except CorruptIndex:
        pass
    try:
        times = TimeIndex.decode(BASE, data, BASE + 1000)
        pairs = [times.entry(at) for at in range(len(times))]
        assert pairs == sorted(pairs)
        assert all(timestamp >= 0 and BASE <= last < BASE + 1000 for timestamp, last in pairs)
    except CorruptIndex:
        pass


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=20), st.integers(0, 60), st.integers(0, 20))
def test_adjacent_verified_ranges_are_joined(added: list[tuple[int, int]], start: int, size: int) -> None:
    checked, model = Checked(), set[int]()
    for begin, length in added:
        if length:
            checked.add(begin, begin + length)
        model |= set(range(begin, begin + length))
    assert checked.covers(start, start + size) == model.issuperset(range(start, start + size))


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50), st.booleans()), min_size=1, max_size=30),
    st.integers(0, 90),
    st.integers(0, 300),
    st.integers(0, 90),
    st.booleans(),
)
def test_the_newest_batches_in_memory_are_found_like_in_a_plain_list(
    batches: list[tuple[int, int, bool]], at: int, bytes_max: int, upper: int, one: bool
) -> None:
    """The model is a list of (first offset, next offset, bytes)."""
    tail, end, position = Tail(), 0, 0
    model: list[Any] = []
    for count, size, kept in batches:
        chunk = bytes([len(model)]) * size
        tail.add(end, position, chunk if kept else None)
        model.append((end, end + count, chunk))
        end, position = end + count, position + size
    at %= end
    upper = min(max(upper, at + 1), end)
    whole = [chunk for first, following, chunk in model if following > at and following <= upper]
    if not all(following <= upper for first, following, _ in model if first <= at < following):
        whole = []
    taken: list[bytes] = []
    for chunk in whole:
        if sum(map(len, taken)) + len(chunk) > bytes_max and not (one and not taken):
            break
        taken.append(chunk)
    place, size, data = tail.find(at, bytes_max, upper, end, position, one)
    stored = b"".join(chunk for _, _, chunk in model)
    assert stored[place : place + size] == b"".join(taken)
    assert data is None or data == b"".join(taken)
    assert tail.bytes_from(at, upper, end, position) == sum(map(len, whole))


@given(st.lists(st.integers(1, KEEP_BYTES_MAX), min_size=1, max_size=10), st.integers(1, 1500))
def test_the_size_of_the_newest_batches_in_memory_is_limited(sizes: list[int], count: int) -> None:
    """The bytes of the newest batches are kept, and only the positions of older batches."""
    tail, position, places = Tail(), 0, []
    for number in range(count):
        size = sizes[number % len(sizes)]
        tail.add(number, position, bytes(size))
        places.append((position, size))
        position += size
    known = range(tail.first_offset, count)
    found = [tail.find(number, KEEP_BYTES_MAX, number + 1, count, position, True) for number in known]
    assert [one[:2] for one in found] == [places[number] for number in known]
    held = [data for *_, data in found if data is not None]
    assert sum(map(len, held)) <= BYTES_KEPT_MAX
    assert len(held) >= min(len(known), BYTES_KEPT_MAX // 2 // max(sizes))
    assert [data is None for *_, data in found] == [True] * (len(known) - len(held)) + [False] * len(held)


TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


@given(st.dictionaries(st.builds(TopicPartition, TOPICS, st.integers(0, 10**6)), st.integers(0, 2**63 - 1), max_size=8))
def test_an_offset_checkpoint_is_unchanged_after_it_is_encoded_and_decoded(offsets: dict[TopicPartition, int]) -> None:
    data = checkpoints.encode_offsets(offsets)
    assert checkpoints.decode_offsets(data) == offsets
    for cut in range(1, len(data)):
        with pytest.raises(CorruptCheckpoint):
            checkpoints.decode_offsets(data[:cut])


def test_checkpoints_are_encoded_as_in_kafka() -> None:
    assert checkpoints.encode_offsets({TopicPartition("b", 1): 2, TopicPartition("a", 0): 5}) == b"0\n2\na 0 5\nb 1 2\n"
    assert checkpoints.encode_epochs([(0, 0), (2, 60)]) == b"0\n2\n0 0\n2 60\n"
    assert checkpoints.decode_offsets(b"") == {}
    for wrong in (
        b"1\n0\n",
        b"0\n",
        b"0\n1\n",
        b"0\nx\n",
        b"0\n1\n1 2\n3",
        b"0\n1\n1 x\n",
        b"\xff\n0\n",
        b"",
        b"0\n2\n1 2\n1 3\n",
    ):
        with pytest.raises(CorruptCheckpoint):
            checkpoints.decode_epochs(wrong)


@given(TOPICS, st.integers(0, 10**6))
def test_directory_names_are_parsed_and_built(topic: str, partition: int) -> None:
    assert parse_name(directory_name(TopicPartition(topic, partition))) == (topic, partition)
    deleted = away_name(TopicPartition(topic * 13, partition), "0" * 32, DELETE)
    assert DELETED_NAME.fullmatch(deleted)
    assert len(deleted) <= 255


@given(st.binary(min_size=16, max_size=16))
def test_partition_metadata_is_unchanged_after_it_is_encoded_and_decoded(uuid: bytes) -> None:
    assert decode_metadata(encode_metadata(uuid)) == uuid
    assert len(encode_metadata(uuid)) == 43


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        b"version: 0\ntopic_id: AAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAA\xff",
    ],
)
def test_invalid_partition_metadata_has_no_topic_id(wrong: bytes) -> None:
    assert decode_metadata(wrong) is None


@pytest.mark.parametrize(
    "wrong",
    [
        "version=1\nnode.id=1\ncluster.id=c",
        "version=0\nbroker.id=1",
        "node.id=1\ndirectory.id=x\ncluster.id=c\nversion=1",
        "node.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\ncluster.id=c\nversion=1",
    ],
)
def test_invalid_meta_properties_are_refused(wrong: str) -> None:
    with pytest.raises(CorruptMeta):
        MetaProperties.decode(wrong.encode())


@given(st.binary(max_size=80))
def test_decoding_random_bytes_gives_corrupt_snapshot(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode(data)


def test_an_empty_snapshot_is_encoded_as_in_kafka() -> None:
    assert encode(()) == bytes.fromhex("0001 48674bc7 00000000")
    assert len(decode(encode(()))) == 0


@given(st.integers(0, 10), st.integers(1, 10), st.booleans())
def test_a_flush_is_due_after_flush_messages_or_before_each_acknowledgement(
    unflushed: int, flush_messages: int, flush_before_ack: bool
) -> None:
    config = LogConfig(flush_messages=flush_messages, flush_before_ack=flush_before_ack)
    assert (unflushed > config.unflushed_max) == (unflushed >= (1 if flush_before_ack else flush_messages))
