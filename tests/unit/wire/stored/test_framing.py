"""Tests of the types and versions of stored records, with the bytes of Kafka 4.3.1's own logs and with
invalid bytes.
"""

import json
import lzma
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.wire.plain import plain, snaked
from wire.compile import encoder
from wire.declare import Stored
from wire.errors import DecodeError, EncodeError
from wire.records.batch import batches
from wire.records.record import Record, records
from wire.stored.classic_group import GroupMetadataValue
from wire.stored.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from wire.stored.framing import (
    Catalogue,
    CoordinatorKey,
    FramedRecord,
    UnknownRecordType,
    decode_framed,
    decode_key,
    decode_versioned,
    encode_framed,
    encode_key,
    encode_versioned,
)
from wire.stored.group import GROUP_RECORDS
from wire.stored.group_offsets import OffsetCommitKey, OffsetCommitValue
from wire.stored.metadata import METADATA_RECORDS, decode_metadata, encode_metadata
from wire.stored.metadata_topics import PartitionRecord, TopicRecord
from wire.stored.share_state import SHARE_RECORDS
from wire.stored.transaction_log import TRANSACTION_RECORDS

GOLDEN = Path(__file__).parents[3] / "data/golden"
CATALOGUES: dict[str, Catalogue] = {
    "__consumer_offsets": GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
    "__share_group_state": SHARE_RECORDS,
}


@cache
def logged() -> dict[tuple[str, int], Record]:
    """Map (partition, offset) to each record of Kafka's internal topics, without control records."""
    found: dict[tuple[str, int], Record] = {}
    with tarfile.open(GOLDEN / "logdir-clean.tar.xz") as tar:
        for member in tar:
            partition, _, file = member.name.removeprefix("clean/").partition("/")
            if partition.startswith("__") and file.endswith(".log"):
                content = cast(Any, tar.extractfile(member)).read()
                found |= {
                    (partition, record.offset): record
                    for batch in batches(content)
                    if not batch.is_control
                    for record in records(batch, 1 << 20)
                }
    return found


def dumped(metadata: bool) -> Iterator[tuple[Record, Any]]:
    """Yield each record with the output of Kafka's DumpLogSegments for it."""
    with lzma.open(GOLDEN / "logged-records.jsonl.xz", "rt") as file:
        for row in map(json.loads, file):
            if row["partition"].startswith("__cluster_metadata") == metadata:
                yield logged()[row["partition"], row["offset"]], row


def test_metadata_records_have_the_values_that_kafka_dumps() -> None:
    types = set()
    for record, row in dumped(metadata=True):
        assert record.value is not None
        message, version = decode_framed(METADATA_RECORDS, record.value)
        assert encode_metadata(message, version) == record.value
        assert plain(message, version) == snaked(row["value"]["data"])
        name = type(message).__name__.upper()
        assert (name, version) == (row["value"]["type"].replace("_", ""), row["value"]["version"])
        types.add(type(message))
    assert len(types) == 18


def test_coordinator_records_have_the_values_that_kafka_dumps() -> None:
    types = set()
    for record, row in dumped(metadata=False):
        assert record.key is not None
        catalogue = CATALOGUES[row["partition"].rpartition("-")[0]]
        key = decode_key(catalogue, record.key)
        assert encode_key(key) == record.key
        assert {"type": str(key.record_type), "data": plain(key, 0)} == snaked(row["key"])
        types.add(type(key))
        if row["value"] is None:
            assert record.value is None
            continue
        assert record.value is not None
        value, version = decode_versioned(catalogue[key.record_type][1], record.value), int(row["value"]["version"])
        assert encode_versioned(value, version) == record.value
        values = plain(value, version)
        if isinstance(value, GroupMetadataValue):
            for member, told_of in zip(value.members, values["members"], strict=True):
                told_of["subscription"] = carried(ConsumerProtocolSubscription, member.subscription)
                told_of["assignment"] = carried(ConsumerProtocolAssignment, member.assignment)
        assert values == snaked(row["value"]["data"])
    assert len(types) == 17


def carried(cls: type[Stored], data: bytes) -> dict[str, Any]:
    """Return the metadata of a classic group member, which DumpLogSegments prints decoded."""
    version = int.from_bytes(data[:2], "big")
    message = decode_versioned(cls, data)
    assert encode_versioned(message, version) == data
    return plain(message, version)


def test_the_tables_of_record_types_are_complete() -> None:
    assert sorted(METADATA_RECORDS) == [
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        10,
        11,
        12,
        14,
        15,
        17,
        18,
        19,
        20,
        21,
        22,
        23,
        24,
        25,
        26,
        27,
        28,
    ]
    assert sorted(GROUP_RECORDS) == [*range(9), *range(10, 18), *range(19, 24)]
    for catalogue in CATALOGUES.values():
        assert all(key.record_type == value.record_type == number for number, (key, value) in catalogue.items())


def test_a_metadata_record_has_the_same_frame_as_kafkas() -> None:
    record = TopicRecord("t", bytes(range(16)))
    assert encode_metadata(record, 0) == bytes.fromhex("01 02 00 02 74 000102030405060708090a0b0c0d0e0f 00")
    assert decode_metadata(memoryview(encode_metadata(record, 0))) == record


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "01",
        "01 02",
        "01 02 00",
        "00 02 00 01 00000000000000000000000000000000 00",
        "02 02 00 01 00000000000000000000000000000000 00",
        "01 02 01 01 00000000000000000000000000000000 00",
        "01 02 00 01 00000000000000000000000000000000 00 00",
        "01 ffffffffff",
    ],
    ids=[
        "empty",
        "no type",
        "no version",
        "no message",
        "frame version 0",
        "frame version 2",
        "version 1",
        "bytes after the end",
        "a varint without end",
    ],
)
def test_malformed_metadata_records_are_refused(frame: str) -> None:
    with pytest.raises(DecodeError):
        decode_metadata(bytes.fromhex(frame))


def test_a_metadata_record_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownRecordType, match="record type 13"):
        decode_metadata(bytes.fromhex("01 0d 00 00"))


def test_a_field_that_the_version_lacks_is_an_encode_error() -> None:
    record = PartitionRecord(directories=[bytes(16)])
    with pytest.raises(EncodeError, match="directories"):
        encode_metadata(record, 0)
    assert decode_metadata(encode_metadata(record, 1)) == record


def test_unknown_tagged_fields_of_a_record_are_kept() -> None:
    frame = bytes.fromhex("01 02 00 02 74 000102030405060708090a0b0c0d0e0f 01 09 02 abcd")
    assert encode_metadata(decode_metadata(frame), 0) == frame


def test_an_offset_commit_record_has_the_same_bytes_as_kafkas() -> None:
    key, value = OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", 6)
    assert encode_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000001")
    assert encode_versioned(value, 3) == bytes.fromhex("0003 0000000000000005 ffffffff 0000 0000000000000006")
    assert decode_versioned(OffsetCommitValue, encode_versioned(value, 3)) == value


@pytest.mark.parametrize("data", ["", "00", "0001", "ffff 00"])
def test_malformed_record_keys_are_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_key(GROUP_RECORDS, bytes.fromhex(data))


def test_a_record_key_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownRecordType, match="record type 9"):
        decode_key(GROUP_RECORDS, bytes.fromhex("0009 0001 67"))


@pytest.mark.parametrize(("version", "readable"), [(3, True), (4, False), (-1, False)])
def test_a_subscription_of_a_newer_version_is_decoded_only_if_newer_is_set(version: int, readable: bool) -> None:
    subscription = ConsumerProtocolSubscription(["t"], None, [], 3, "rack")
    data = version.to_bytes(2, "big", signed=True) + encode_versioned(subscription, 3)[2:] + b"appended later"
    if readable:
        assert decode_versioned(ConsumerProtocolSubscription, data) == subscription
    else:
        with pytest.raises(DecodeError, match=f"no version {version}"):
            decode_versioned(ConsumerProtocolSubscription, data)
    if version >= 0:
        assert decode_versioned(ConsumerProtocolSubscription, data, newer=True) == subscription


@pytest.mark.parametrize("base", [FramedRecord, CoordinatorKey])
def test_only_the_metadata_log_refuses_bytes_after_a_message(base: type[Stored]) -> None:
    assert base.exact is (base is FramedRecord)
    assert encode_framed(TopicRecord(), 0)[3:] == _body(TopicRecord())


def _body(message: Stored) -> bytes:
    out: list[Any] = []
    encoder(type(message), 0)(message, out)
    return b"".join(out)
