"""Tests of the iterations in a store: the limit on their sum and on the depth of values, at, below and above."""

from __future__ import annotations

import pytest

from pykbroker.core.security.iterations import (
    COUNT_BYTES_MAX,
    DEPTH_MAX,
    INTEGER,
    ITERATIONS_MAX,
    OCTET_STRING,
    SEQUENCE,
    TooManyIterations,
    check_iterations,
    iterations,
)


def value(tag: int, inner: bytes) -> bytes:
    size = len(inner).to_bytes(4)
    return bytes([tag, 0x84]) + size + inner


def salted(count: int, size: int = COUNT_BYTES_MAX) -> bytes:
    return value(SEQUENCE, value(OCTET_STRING, b"0salt") + value(INTEGER, count.to_bytes(size)))


@pytest.mark.parametrize(("more", "is_refused"), [(-1, False), (0, False), (1, True)])
def test_the_sum_of_iterations_is_limited(more: int, is_refused: bool) -> None:
    store = value(SEQUENCE, salted(ITERATIONS_MAX - 7) + value(OCTET_STRING, salted(7 + more)))
    assert list(iterations(store)) == [ITERATIONS_MAX - 7, 7 + more]
    if is_refused:
        with pytest.raises(TooManyIterations, match="more than 5,000,000 iterations"):
            check_iterations(store)
    else:
        check_iterations(store)


def test_a_number_that_openssl_takes_for_no_count_is_none() -> None:
    assert list(iterations(salted(9, COUNT_BYTES_MAX) + salted(9, COUNT_BYTES_MAX + 1))) == [9]
    assert list(iterations(value(SEQUENCE, value(INTEGER, b"\1") + value(INTEGER, b"\2")))) == []


@pytest.mark.parametrize("tag", [SEQUENCE, OCTET_STRING])
def test_the_depth_is_limited(tag: int) -> None:
    store = salted(1)
    for depth in range(DEPTH_MAX - 2):
        store = value(tag if depth % 2 else SEQUENCE, store)
    assert list(iterations(store)) == [1]
    check_iterations(store)
    with pytest.raises(TooManyIterations, match="64 values"):
        check_iterations(value(SEQUENCE, store))


@pytest.mark.parametrize("data", [b"\x30", b"\x30\x05\x02"])
def test_what_is_cut_off_is_no_der(data: bytes) -> None:
    with pytest.raises((IndexError, ValueError)):
        check_iterations(data)
