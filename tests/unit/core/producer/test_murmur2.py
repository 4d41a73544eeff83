"""The hash of keys, held against values that Kafka's own tests state and against kafka-python's implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as theirs

from pykbroker.core.producer.murmur2 import CACHED_KEY_BYTES_MAX, murmur2, partition_of_key

KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KAFKAS)
def test_a_hash_is_that_of_kafkas_tests(key: bytes) -> None:
    assert murmur2(key) == KAFKAS[key] & 0xFFFF_FFFF


@given(st.binary(max_size=200))
def test_a_hash_is_that_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == theirs(key) & 0xFFFF_FFFF


@pytest.mark.parametrize("size", [0, CACHED_KEY_BYTES_MAX - 1, CACHED_KEY_BYTES_MAX, CACHED_KEY_BYTES_MAX + 1])
def test_a_key_has_one_partition_whether_its_hash_is_remembered_or_not(size: int) -> None:
    key = b"k" * size
    assert partition_of_key(key, 7) == partition_of_key(key, 7) == (theirs(key) & 0x7FFF_FFFF) % 7
