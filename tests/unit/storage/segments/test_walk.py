"""Tests of the walk over a segment file: it finds every valid batch and describes the first invalid one."""

from __future__ import annotations

import pytest

from pykbroker.storage.files.reading import CHUNK_BYTES
from pykbroker.storage.segments import walk
from pykbroker.storage.segments.walk import Walk
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import batch
from wire.records.batch import HEADER, HEADER_BYTES
from wire.records.crc import crc32c

BASE = 100


def stamped(*sizes: int) -> list[bytes]:
    """Return batches with one record of each size, with offsets from `BASE` on."""
    return [(BASE + at).to_bytes(8, "big") + batch(bytes(size))[8:] for at, size in enumerate(sizes)]


async def walked(disk: SystemDisk, data: bytes, *, next_offset: int = BASE) -> tuple[list[tuple[int, int]], Walk]:
    """Return (position, base offset) of each batch in a file with these bytes, and the walk at its end."""
    with_data = disk.open("0.log", create=True)
    with_data.append(data)
    going = Walk(with_data, 0, with_data.size, BASE, next_offset, check_crc=True)
    found: list[tuple[int, int]] = []
    while some := await going.more():
        found += [(position, one.base_offset) for position, one in some]
        assert all(one.buffer == data[position : position + one.size] for position, one in some)
    with_data.close()
    return found, going


@pytest.mark.parametrize("missing", [-1, 0, 1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
async def test_batches_are_found_wherever_a_chunk_of_the_file_ends(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    sizes = 10, 2_000, 1, 5_000, 30
    data = stamped(*sizes)
    monkeypatch.setattr(walk, "CHUNK_BYTES", len(data[0]) + missing)
    found, going = await walked(disk, b"".join(data))
    positions = [sum(map(len, data[:at])) for at in range(len(sizes))]
    assert found == [(position, BASE + at) for at, position in enumerate(positions)]
    assert going.damage is None
    assert (going.position, going.next_offset) == (sum(map(len, data)), BASE + len(sizes))


async def test_a_batch_larger_than_a_chunk_is_found(disk: SystemDisk) -> None:
    data = stamped(10, 2 * CHUNK_BYTES, 10)
    found, going = await walked(disk, b"".join(data))
    assert len(found) == len(data)
    assert going.damage is None


def changed(one: bytes, **fields: int) -> bytes:
    """Return the batch with changed header fields, and a valid checksum unless `crc` is given."""
    names = ("base_offset", "length", "epoch", "magic", "crc", "attributes", "delta")
    values = list(HEADER.unpack_from(one))
    for name, value in fields.items():
        values[names.index(name)] = value
    again = HEADER.pack(*values) + one[HEADER_BYTES:]
    if "crc" in fields:
        return again
    return again[:17] + crc32c(again, 21).to_bytes(4, "big") + again[21:]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 1}, "magic 1"),
        ({"length": 48}, "batch length 48"),
        ({"length": -1}, "batch length -1"),
        ({"length": 1 << 30}, "batch length"),
        ({"base_offset": BASE}, f"batch of offset {BASE} where {BASE + 1} or more was expected"),
        ({"delta": -1}, "has the last offset delta -1"),
        ({"delta": 2**31 - 1}, "too far above the base offset"),
        ({"crc": 7}, "does not have its checksum 00000007"),
    ],
)
async def test_the_first_invalid_batch_ends_the_walk_and_is_described(
    disk: SystemDisk, fields: dict[str, int], reason: str
) -> None:
    data = stamped(10, 20, 30)
    found, going = await walked(disk, data[0] + changed(data[1], **fields) + data[2])
    assert found == [(0, BASE)]
    assert reason in (going.damage or "")
    assert (going.position, going.next_offset) == (len(data[0]), BASE + 1)


@pytest.mark.parametrize("keep", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
async def test_a_truncated_batch_ends_the_walk(disk: SystemDisk, keep: int) -> None:
    data = stamped(10, 20)
    found, going = await walked(disk, data[0] + data[1][:keep])
    assert found == [(0, BASE)]
    assert going.damage
    assert going.position == len(data[0])
