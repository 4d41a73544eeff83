"""Tests of batches in both directions, compared with kafka-python and aiokafka (in C and in Python)."""

from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python

from tests.unit.wire.records.validated import validated
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.compression import Codec
from wire.records.record import Record, records

MIB = 1 << 20
READERS = [kafka_python.DefaultRecordBatch, aiokafka.DefaultRecordBatch, aiokafka._DefaultRecordBatchPy]
WRITERS = [
    kafka_python.DefaultRecordBatchBuilder,
    aiokafka.DefaultRecordBatchBuilder,
    aiokafka._DefaultRecordBatchBuilderPy,
]

maybe_bytes = st.none() | st.binary(max_size=70)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3).map(tuple)
content = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 2**45), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=8
).map(
    lambda made: [
        Record(offset, record.timestamp, record.key, record.value, record.headers) for offset, record in enumerate(made)
    ]
)
LARGE = [
    Record(n, 1_700_000_000_000 + n, b"key-%d" % n, b"value %d " % (n * 7919 % 1007) * 9, (("n", b"%d" % n),))
    for n in range(2500)
]


def written(made: list[Record], codec: Codec) -> bytes:
    builder = BatchBuilder(codec, producer_id=5, producer_epoch=3, base_sequence=70, transactional=True)
    for record in made:
        builder.append(record.key, record.value, record.headers, record.timestamp)
    return builder.build()


def written_by(writer: Any, made: list[Record], codec: Codec) -> bytes:
    builder = writer(
        magic=2,
        compression_type=int(codec),
        is_transactional=1,
        producer_id=5,
        producer_epoch=3,
        base_sequence=70,
        batch_size=16 * MIB,
    )
    for record in made:
        assert (
            builder.append(
                record.offset,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            is not None
        )
    return bytes(builder.build())


def compare_read(reader: Any, made: list[Record], codec: Codec) -> None:
    theirs = reader(written(made, codec))
    assert theirs.validate_crc()
    assert (theirs.compression_type, theirs.is_transactional, theirs.is_control_batch) == (codec, True, False)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 3, 70)
    assert theirs.max_timestamp == max(record.timestamp for record in made)
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in theirs
    ] == made


def compare_written(writer: Any, made: list[Record], codec: Codec) -> None:
    theirs, ours = Batch.read(written_by(writer, made, codec)), Batch.read(written(made, codec))
    assert theirs.crc_ok()
    assert list(records(theirs, 16 * MIB)) == made
    assert validated(theirs, 16 * MIB) == validated(ours, 16 * MIB)
    if codec is Codec.NONE:
        assert theirs.buffer[21:] == ours.buffer[21:]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("codec", Codec)
@given(made=content)
@settings(max_examples=30)
def test_other_clients_read_our_batches(reader: Any, codec: Codec, made: list[Record]) -> None:
    compare_read(reader, made, codec)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("codec", Codec)
@given(made=content)
@settings(max_examples=30)
def test_batches_of_other_clients_are_read(writer: Any, codec: Codec, made: list[Record]) -> None:
    compare_written(writer, made, codec)


@pytest.mark.parametrize(("reader", "writer"), list(zip(READERS, WRITERS, strict=True)))
@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_many_records_is_the_same_for_other_clients(reader: Any, writer: Any, codec: Codec) -> None:
    compare_read(reader, LARGE, codec)
    compare_written(writer, LARGE, codec)
    theirs = Batch.read(written_by(writer, LARGE, codec))
    assert theirs.codec is codec
