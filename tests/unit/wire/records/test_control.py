"""Tests of control records: the same bytes as Apache Kafka 4.3.1, newer versions, and damage."""

import pytest

from wire.errors import DecodeError, EncodeError
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec
from wire.records.control import (
    ControlRecord,
    ControlType,
    KRaftValue,
    control_records,
    kraft_batch,
    transaction_marker,
)
from wire.records.record import records
from wire.stored.control import (
    Endpoint,
    EndTxnMarker,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)

COMMIT = bytes.fromhex(
    "0000000000000006 00000042 00000000 02 c0892c51 0030 00000000 000001a1fe33b918 000001a1fe33b918"
    "0000000000000001 0000 ffffffff 00000001 20 00 00 00 08 00000001 0c 000000000000 00"
)

LEADER_CHANGE = LeaderChangeMessage(
    leader_id=1, voters=[LeaderChangeMessageVoter(voter_id=1)], granting_voters=[LeaderChangeMessageVoter(voter_id=1)]
)
VOTERS = VotersRecord(
    voters=[
        VotersRecordVoter(
            voter_id=1,
            voter_directory_id=bytes.fromhex("b0d5b994b69b4f2087dfd7d648245147"),
            endpoints=[Endpoint(name="CONTROLLER", host="127.0.0.1", port=49193)],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
    ]
)

KRAFT: list[tuple[ControlType, KRaftValue, str]] = [  # The values are from the logs and snapshots of a broker.
    (ControlType.LEADER_CHANGE, LEADER_CHANGE, "0000 00000001 02 00000001 00 02 00000001 00 00"),
    (
        ControlType.SNAPSHOT_HEADER,
        SnapshotHeaderRecord(last_contained_log_timestamp=0x1A1FE45E826),
        "0000 000001a1fe45e826 00",
    ),
    (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(), "0000 00"),
    (ControlType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1), "0000 0001 00"),
    (
        ControlType.KRAFT_VOTERS,
        VOTERS,
        "0000 02 00000001 b0d5b994b69b4f2087dfd7d648245147 02 0b434f4e54524f4c4c4552"
        "0a3132372e302e302e31 c029 00 0000 0001 00 00 00",
    ),
]


def control(*pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE) -> Batch:
    builder = BatchBuilder(codec, control=True)
    for key, value in pairs:
        builder.append(key, value)
    return Batch.read(builder.build())


def test_a_commit_marker_has_the_same_bytes_as_kafkas() -> None:
    assert (
        transaction_marker(
            commit=True,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0x1A1FE33B918,
            base_offset=6,
            leader_epoch=0,
        )
        == COMMIT
    )


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_are_encoded_and_decoded(commit: bool) -> None:
    data = transaction_marker(commit=commit, producer_id=2**40, producer_epoch=7, coordinator_epoch=3, timestamp=5)
    batch = Batch.read(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count) == (2**40, 7, -1, 1)
    assert (batch.is_control, batch.is_transactional, batch.max_timestamp) == (True, True, 5)
    expected = ControlRecord(0, ControlType.COMMIT if commit else ControlType.ABORT, EndTxnMarker(coordinator_epoch=3))
    assert list(control_records(batch)) == [expected]


@pytest.mark.parametrize(("number", "value", "encoded"), KRAFT)
def test_kraft_control_records_have_the_same_bytes_as_kafkas(
    number: ControlType, value: KRaftValue, encoded: str
) -> None:
    batch = Batch.read(kraft_batch([value], base_offset=9, leader_epoch=2, timestamp=77))
    assert (batch.attributes, batch.producer_id, batch.base_sequence) == (0x20, -1, -1)
    assert (batch.base_offset, batch.leader_epoch, batch.max_timestamp) == (9, 2, 77)
    assert [(record.key, record.value) for record in records(batch, 1000)] == [
        (bytes([0, 0, 0, number]), bytes.fromhex(encoded))
    ]
    assert list(control_records(batch)) == [ControlRecord(9, number, value)]


def test_a_snapshot_header_batch_has_several_records() -> None:
    values = [value for _, value, _ in KRAFT]
    batch = Batch.read(kraft_batch(values, base_offset=0, leader_epoch=0, timestamp=1))
    assert [(record.offset, record.type) for record in control_records(batch)] == [
        (offset, number) for offset, (number, _, _) in enumerate(KRAFT)
    ]


def test_a_leader_change_record_has_its_version_in_the_value() -> None:
    voter = LeaderChangeMessageVoter(voter_id=4, voter_directory_id=bytes(range(16)))
    value = LeaderChangeMessage(version=1, leader_id=4, voters=[voter])
    batch = Batch.read(kraft_batch([value], base_offset=0, leader_epoch=1, timestamp=1))
    assert [record.value for record in control_records(batch)] == [value]


def test_a_control_batch_without_records_is_not_built() -> None:
    with pytest.raises(EncodeError):
        kraft_batch([], base_offset=0, leader_epoch=0, timestamp=0)


def test_control_records_of_a_newer_broker_are_read() -> None:
    batch = control(
        (b"\0\0\0\x63", b"whatever"), (b"\0\7\0\1rest", b"\0\5\0\0\0\x09rest"), (b"\0\0\0\5", b"\0\4\0\1\0")
    )
    assert list(control_records(batch)) == [
        ControlRecord(0, 99, None),
        ControlRecord(1, ControlType.COMMIT, EndTxnMarker(coordinator_epoch=9)),
        ControlRecord(2, ControlType.KRAFT_VERSION, KRaftVersionRecord(version=4, kraft_version=1)),
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"", b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\1", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", b""),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
        (b"\0\0\0\2", b""),
        (b"\0\0\0\2", b"\xff\xff\0\0\0\1\1\1\0"),
        (b"\0\0\0\2", b"\0\0\0\0\0\1\xff\xff\xff\xff\x0f"),
        (b"\0\0\0\6", b"\0\0\2"),
    ],
)
def test_damaged_control_records_are_a_decode_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        list(control_records(control((key, value))))


def test_every_truncation_of_a_value_is_a_decode_error() -> None:
    for number, _, encoded in KRAFT:
        value = bytes.fromhex(encoded)
        for size in range(len(value)):
            with pytest.raises(DecodeError):
                list(control_records(control((bytes([0, 0, 0, number]), value[:size]))))


def test_a_data_batch_has_no_control_records() -> None:
    builder = BatchBuilder()
    builder.append(b"\0\0\0\1", b"\0\0\0\0\0\0")
    with pytest.raises(DecodeError, match="not a control batch"):
        list(control_records(Batch.read(builder.build())))


def test_a_decompression_bomb_in_a_control_batch_is_refused() -> None:
    with pytest.raises(DecodeError):
        list(control_records(control((b"\0\0\0\x63", bytes(2 << 20)), codec=Codec.ZSTD)))
