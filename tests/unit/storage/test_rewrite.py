"""Which batches are opened in a thread: those that would hold up the loop, and no others."""

from __future__ import annotations

import pytest
from msgspec import structs

from pykbroker.storage.config import LogConfig
from pykbroker.storage.rewrite import is_long_work
from tests.unit.storage.logs import batch
from wire.records.batch import HEADER_BYTES, Batch
from wire.records.builder import sealed
from wire.records.compression import Codec

LOOKING = LogConfig(validate_records=True)
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", PACKED)
def test_what_may_become_large_is_long_work(codec: Codec) -> None:
    bomb = batch(bytes(2 << 20), codec=codec)
    other = "lz4" if codec is Codec.ZSTD else "zstd"
    assert is_long_work(bomb, LOOKING)
    assert is_long_work(bomb, LogConfig(compression_type=other))
    assert not is_long_work(bomb, LogConfig(compression_type=codec.name.lower()))
    assert not is_long_work(bomb, LogConfig(message_timestamp_type="LogAppendTime"))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_stays_small_is_not(codec: Codec) -> None:
    small = batch(*[b"value"] * 100, codec=codec)
    assert not is_long_work(small, LOOKING)
    assert not is_long_work(small, LogConfig(compression_type="gzip"))


def test_many_records_are_long_work_where_each_is_looked_at() -> None:
    many = batch(*[b""] * 2000, codec=Codec.LZ4)
    assert len(many) < 30_000
    assert is_long_work(many, LOOKING)
    assert not is_long_work(many, LogConfig(compression_type="zstd"))


@pytest.mark.parametrize("codec", PACKED[1:])
def test_what_does_not_parse_is_left_to_be_refused(codec: Codec) -> None:
    whole = batch(codec=codec)
    bad = sealed(structs.replace(Batch.read(whole), last_offset_delta=0), b"\xff garbage")
    for data in (bad, whole[:-1], whole[:HEADER_BYTES], whole[: HEADER_BYTES - 1], b""):
        assert not is_long_work(data, LOOKING)
