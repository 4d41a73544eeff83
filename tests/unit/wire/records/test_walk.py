"""Tests of the validation of records, compared with a plain decoder of the same bytes.

Validation handles a run, a sequence of records whose fields have the same sizes, at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from wire.errors import DecodeError
from wire.records import walk
from wire.records.runs import PLACES_MAX, RUN_RECORDS_MIN, run_at
from wire.records.walk import TooLong, Walked, walked
from wire.records.zigzag import read_varint, read_varlong, varint

MANY = 1 << 20


def record(index: int, stamp: int = 0, key: bytes | None = None, value: bytes | None = b"", headers: int = 0) -> bytes:
    def field(data: bytes | None) -> bytes:
        return varint(-1) if data is None else varint(len(data)) + data

    body = (
        b"\0"
        + varint(stamp)
        + varint(index)
        + field(key)
        + field(value)
        + varint(headers)
        + (field(b"name") + field(None)) * headers
    )
    return varint(len(body)) + body


def read_plainly(data: bytes, count: int) -> Walked:
    """Validate records like `walked`, but decode one integer after another."""
    pos, stamps, keyless = 0, [], 0
    try:
        for index in range(count):
            size, pos = read_varint(data, pos)
            end = pos + size
            stamp, pos = read_varlong(data, pos + 1)
            delta, pos = read_varint(data, pos)
            sizes = []
            for _ in range(2):
                length, pos = read_varint(data, pos)
                sizes.append(length)
                pos += max(length, 0)
            headers, pos = read_varint(data, pos)
            for _ in range(headers):
                for lowest in (0, -1):
                    length, pos = read_varint(data, pos)
                    if length < lowest:
                        raise DecodeError("header")
                    pos += max(length, 0)
            if pos != end or size < 0 or delta != index or min(sizes) < -1 or headers < 0:
                raise DecodeError("record")
            stamps.append(stamp)
            keyless += sizes[0] == -1
    except IndexError:
        raise DecodeError("cut off") from None
    if pos != len(data):
        raise DecodeError("bytes after the last")
    return Walked(min(stamps), max(stamps), keyless)


def agree(data: bytes, count: int) -> bool:
    """Return whether the bytes are valid; fail if both implementations disagree."""
    try:
        expected = read_plainly(data, count)
    except DecodeError:
        with pytest.raises(DecodeError):
            walked(data, count, MANY)
        return False
    assert walked(data, count, MANY) == expected
    return True


def some_records(dice: random.Random) -> Sequence[bytes]:
    """Return a strategy for runs of similar records with other records between them, as producers write them."""
    made: list[bytes] = []
    for _ in range(dice.randint(1, 6)):
        size, key_size, headers = dice.choice((0, 1, 40, 63, 64, 100, 300)), dice.choice((None, 0, 5, 80)), 0
        stamps = dice.choice(((0,), (0, 1, 2), (-1, 0, 70), (-9000, 9000), (100, 101, 5000), (1 << 40, 1 << 41)))
        if dice.random() < 0.2:
            headers = dice.choice((1, 3, 70))
        for _ in range(dice.choice((1, 2, 5, 70, 200))):
            key = None if key_size is None else dice.randbytes(key_size)
            made.append(record(len(made), dice.choice(stamps), key, dice.randbytes(size), headers))
    return made


@pytest.mark.parametrize("seed", range(60))
def test_validation_agrees_with_a_plain_decoder(seed: int) -> None:
    dice = random.Random(seed)
    made = some_records(dice)
    data = b"".join(made)
    assert agree(data, len(made))
    for _ in range(30):
        harmed = bytearray(data)
        at = dice.randrange(len(made))
        place = sum(map(len, made[:at])) + min(dice.randrange(12), len(made[at]) - 1)
        harmed[place] = dice.choice((harmed[place] ^ 1 << dice.randrange(8), dice.randrange(256)))
        agree(bytes(harmed), len(made))


@pytest.mark.parametrize("size", [0, 30, 62, 100, 8300])
@pytest.mark.parametrize(
    "index", [0, 1, 60, 63, 64, 65, 8150, 8191, 8192, 16_380, (1 << 20) - 30, 1 << 20, (1 << 27) - 5]
)
def test_a_run_ends_where_the_size_of_the_offset_deltas_changes(index: int, size: int) -> None:
    count = 100
    made = [record(index + at, value=bytes(size)) for at in range(count)]
    data, border = b"".join(made), 64 if index < 64 else (index | 8191) + 1
    expected = min(count, border - index)
    run = run_at(data, 0, len(made[0]), index, count)
    assert run == ((expected, 0, 0) if expected >= RUN_RECORDS_MIN else None)
    for at in (1, expected // 2, expected - 1) if expected >= RUN_RECORDS_MIN else ():
        wrong = b"".join([*made[:at], record(index + at + 1, value=bytes(size)), *made[at + 1 :]])
        assert len(wrong) != len(data) or run_at(wrong, 0, len(made[0]), index, count) is None


@pytest.mark.parametrize(
    ("records", "found"), [(RUN_RECORDS_MIN - 1, False), (RUN_RECORDS_MIN, True), (RUN_RECORDS_MIN + 1, True)]
)
def test_few_records_do_not_form_a_run(records: int, found: bool) -> None:
    made = [record(index) for index in range(records)]
    assert (run_at(b"".join(made), 0, len(made[0]), 0, records) is not None) is found


@pytest.mark.parametrize(("headers", "found"), [(PLACES_MAX // 2 - 3, True), (PLACES_MAX // 2 - 2, False), (99, False)])
def test_records_with_many_headers_do_not_form_a_run(headers: int, found: bool) -> None:
    made = [record(index, value=bytes(99), headers=headers) for index in range(20)]
    assert (run_at(b"".join(made), 0, len(made[0]), 0, 20) is not None) is found
    assert agree(b"".join(made), 20)


@pytest.mark.parametrize(
    "stamps",
    [
        [0] * 9,
        [*range(9)],
        [-1] * 9,
        [*range(-4, 5)],
        [*range(100, 109)],
        [63, 63, 64] * 3,
        [-8000, 8000, 100] * 3,
        [1 << 50, -(1 << 50), 1 << 49] * 3,
    ],
)
def test_the_extreme_timestamps_of_a_run_are_found(stamps: list[int]) -> None:
    data = b"".join(record(index, stamp) for index, stamp in enumerate(stamps * 5))
    assert walked(data, 45, 0) == Walked(min(stamps), max(stamps), 45)


def test_records_of_equal_sizes_form_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def noted(*args: int) -> object:
        run = run_at(*args)  # type: ignore[arg-type]
        taken.append(run.records if run else 0)
        return run

    monkeypatch.setattr(walk, "run_at", noted)
    data = b"".join(record(index, value=bytes(100)) for index in range(10_000))
    assert walked(data, 10_000, 0).keyless == 10_000
    assert sum(taken) > 9_900
    assert len(taken) < 20


@pytest.mark.parametrize(("headers_max", "fits"), [(11, False), (12, True), (13, True)])
def test_the_number_of_headers_of_all_records_is_limited(headers_max: int, fits: bool) -> None:
    data = b"".join(record(index, value=bytes(index), headers=4) for index in range(3))
    if fits:
        assert walked(data, 3, headers_max).keyless == 3
    else:
        with pytest.raises(TooLong):
            walked(data, 3, headers_max)


@pytest.mark.parametrize("null", [b"\x81\x00", b"\x81\x80\x80\x80\x00"])
@pytest.mark.parametrize("count", [1, RUN_RECORDS_MIN + 1])
def test_a_null_encoded_in_too_many_bytes_is_a_null(null: bytes, count: int) -> None:
    keyless = b"".join(lengthened(b"\0\0" + varint(index) + null + b"\0\0") for index in range(count))
    assert agree(keyless, count)
    assert walked(keyless, count, MANY).keyless == count
    header = b"".join(lengthened(b"\0\0" + varint(index) + b"\0\0\2" + null + b"\0") for index in range(count))
    assert not agree(header, count)


def lengthened(body: bytes) -> bytes:
    return varint(len(body)) + body
