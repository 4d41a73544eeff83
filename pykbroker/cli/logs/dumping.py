"""The lines of `pykbroker dump-log`, with a generator for each kind of file. Damaged: the file holds invalid bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from struct import Struct

from pykbroker.cli.logs.dumping_records import reader
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.storage.files.partition_directory import parse_name
from pykbroker.storage.recovery.producer_snapshot import CorruptSnapshot, decode
from pykbroker.storage.segments.txn_index import ENTRY as TXN_ENTRY
from pykbroker.storage.segments.txn_index import VERSION as TXN_VERSION
from wire.errors import DecodeError
from wire.records.batch import Batch

INDEX_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
SUFFIXES = (".deleted", ".cleaned", ".swap")


class Damaged(Exception):
    """The error of invalid bytes at `position`. The text says what is wrong with the bytes."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def dumped(path: str, data: memoryview, *, deep: bool) -> Iterator[str]:
    """Return the lines of the file at `path`, whose suffix gives its kind. ValueError: the suffix is unknown."""
    folder, name = os.path.split(os.path.abspath(path))
    for ending in SUFFIXES:
        name = name.removesuffix(ending)
    stem, kind = os.path.splitext(name)
    if kind in (".log", ".checkpoint"):
        topic = (parse_name(os.path.basename(folder)) or ("", 0))[0]
        return batches(data, CLUSTER_METADATA_TOPIC if kind == ".checkpoint" else topic, deep=deep)
    if kind not in KINDS:
        raise ValueError(
            f"{kind or 'this'} is not the suffix of a log's file; known are .log .checkpoint {' '.join(KINDS)}"
        )
    return KINDS[kind](data, int(stem) if stem.isdigit() else 0)


def batches(data: memoryview, topic: str, *, deep: bool) -> Iterator[str]:
    """Yield a line for each batch, and with `deep` a line for each record."""
    position, expected, read = 0, 0, reader(topic)
    while position < len(data):
        try:
            batch = Batch.read(data, position)
            if not batch.crc_ok():
                raise DecodeError(
                    f"the batch of offset {batch.base_offset} does not match its checksum {batch.crc:08x}"
                )
            if batch.base_offset < expected:
                raise DecodeError(f"a batch of offset {batch.base_offset}, where {expected} or more was expected")
            yield line_of(batch, position)
            if deep:
                yield from read(batch)
        except DecodeError as error:
            raise Damaged(position, str(error)) from None
        position, expected = position + batch.size, batch.last_offset + 1


def line_of(batch: Batch, position: int) -> str:
    """Return the fields of a batch's header as text."""
    flags = [
        name
        for name, holds in (
            ("transactional", batch.is_transactional),
            ("control", batch.is_control),
            ("log-append-time", batch.is_log_append_time),
            ("delete-horizon", batch.has_delete_horizon),
        )
        if holds
    ]
    return (
        f"position={position} size={batch.size} offsets={batch.base_offset}-{batch.last_offset} count={batch.count}"
        f" epoch={batch.leader_epoch} codec={batch.codec.name.lower()}"
        f" timestamps={batch.base_timestamp}-{batch.max_timestamp}"
        f" producer={batch.producer_id}/{batch.producer_epoch} sequence={batch.base_sequence}"
        + "".join(f" {flag}" for flag in flags)
    )


def entries(data: memoryview, shape: Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (position, fields) of each entry. Preallocated space, which an unclean stop leaves, is skipped."""
    for position in range(0, len(data) - len(data) % shape.size, shape.size):
        fields = shape.unpack_from(data, position)
        if not any(fields) and len(data) > shape.size:
            if bytes(data[position:]).count(0) == len(data) - position:
                return
            if position:
                raise Damaged(position, "an entry of zeros precedes other entries")
        yield position, fields
    if len(data) % shape.size:
        raise Damaged(len(data) - len(data) % shape.size, f"{len(data) % shape.size} bytes are not a whole entry")


def offset_index(data: memoryview, base_offset: int) -> Iterator[str]:
    """Yield a line for each entry. Damaged: offsets or positions do not rise."""
    last = (-1, -1)
    for at, (relative, position) in entries(data, INDEX_ENTRY):
        if relative <= last[0] or position <= last[1]:
            raise Damaged(
                at,
                f"offset {base_offset + relative}, position {position} after "
                f"offset {base_offset + last[0]}, position {last[1]}",
            )
        last = relative, position
        yield f"offset={base_offset + relative} position={position}"


def time_index(data: memoryview, base_offset: int) -> Iterator[str]:
    """Yield a line for each entry. Damaged: timestamps do not rise, or offsets fall."""
    last = (-1, -1)
    for at, (timestamp, relative) in entries(data, TIME_ENTRY):
        if timestamp <= last[0] or relative < max(last[1], 0):
            raise Damaged(
                at,
                f"timestamp {timestamp}, offset {base_offset + relative} after "
                f"timestamp {last[0]}, offset {base_offset + last[1]}",
            )
        last = timestamp, relative
        yield f"timestamp={timestamp} offset={base_offset + relative}"


def txn_index(data: memoryview, _: int) -> Iterator[str]:
    """Yield a line for each aborted transaction."""
    for at in range(0, len(data), TXN_ENTRY.size):
        if at + TXN_ENTRY.size > len(data):
            raise Damaged(at, f"{len(data) - at} bytes are not a whole entry of {TXN_ENTRY.size}")
        version, producer_id, first, last, stable = TXN_ENTRY.unpack_from(data, at)
        if version != TXN_VERSION or last < first:
            raise Damaged(at, f"version {version}, offsets {first} to {last}")
        yield f"producer={producer_id} offsets={first}-{last} last_stable_offset={stable}"


def producer_snapshot(data: memoryview, _: int) -> Iterator[str]:
    """Yield a line for each producer."""
    try:
        producers = decode(bytes(data))
    except CorruptSnapshot as error:
        raise Damaged(0, str(error)) from None
    for one in producers.entries():
        last_offset = one.batches[-1].last_offset if one.batches else -1
        yield (
            f"producer={one.producer_id}/{one.epoch} last_sequence={one.last_sequence} last_offset={last_offset}"
            f" timestamp={one.last_timestamp} coordinator_epoch={one.coordinator_epoch}"
            f" transaction_begins={one.txn_first_offset}"
        )


KINDS: dict[str, Callable[[memoryview, int], Iterator[str]]] = {
    ".index": offset_index,
    ".timeindex": time_index,
    ".txnindex": txn_index,
    ".snapshot": producer_snapshot,
}
