"""The records of a batch, decoded as columns: offsets, timestamps, keys, values and headers as lists.

Runs of records of equal shape are decoded by slices (`column_runs`). Other records are decoded one by one, without a
function call for integers of one or two bytes, which would double the time.
"""

import msgspec

from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.records.column_runs import EqualRun, equal_run_at
from wire.records.header_reader import HeaderReader
from wire.records.keyless_run import keyless_run_at
from wire.records.record import Headers, content, read_field
from wire.records.zigzag import read_varint, read_varlong

_RUN_FIRST, _RUN_GROWTH, _PAUSE_FIRST, _PAUSE_MAX = 256, 16, 32, 4096
_KEYLESS_MAX = 1024
"""The records of an attempt at a keyless run. Records after a new timestamp are read twice."""


class Columns(msgspec.Struct, gc=False):
    """The columns of records, lists of equal length. `headers` is None if no record has headers.

    Timestamps are in ms since 1970. A null value is a tombstone. The keys, values and headers have at most
    `content_bytes` bytes: the decompressed size of the batch from which the records are.
    """

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None = None
    content_bytes: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, end: int) -> "Columns":
        """Return the records from index `start` up to but not including `end`."""
        at = slice(start, end)
        headers = None if self.headers is None else self.headers[at]
        found = self.offsets[at], self.timestamps[at], self.keys[at], self.values[at]
        return Columns(*found, headers, self.content_bytes)


def read_columns(batch: Batch, bytes_max: int) -> Columns:
    """Return the records of a batch.

    Offsets may have gaps, which compaction leaves. The CRC is not checked. Raise DecodeError if the batch is damaged.
    Raise TooLarge if it decompresses to more than `bytes_max` bytes.
    """
    reader = ColumnReader(batch, bytes_max)
    reader.read()
    columns = reader.columns
    columns.content_bytes = reader.content_bytes
    if batch.is_log_append_time:
        columns.timestamps = [batch.max_timestamp] * len(columns)
    return columns


class _Window:
    """The number of records that the next attempt at a run takes, and how many records must be left at most.

    Attempts grow while they succeed. After each failure, the next attempt is made later.
    """

    __slots__ = ("_pause", "left_max", "records")

    def __init__(self, left_max: int) -> None:
        self.records, self.left_max, self._pause = _RUN_FIRST, left_max, _PAUSE_FIRST

    def succeeded(self, *, is_whole: bool) -> None:
        self.records, self._pause = self.records * _RUN_GROWTH if is_whole else _RUN_FIRST, _PAUSE_FIRST

    def failed(self, left: int) -> None:
        self.records, self.left_max = _RUN_FIRST, left - self._pause
        self._pause = min(2 * self._pause, _PAUSE_MAX)


class ColumnReader:
    """A reader of the records of a batch. `_left` is the number of records from `_pos` on.

    The constructor raises the errors of `read_columns`.
    """

    def __init__(self, batch: Batch, bytes_max: int) -> None:
        self.columns = Columns([], [], [], [])
        self._data, self._pos, self._left = content(batch, bytes_max), 0, batch.count
        self._count, self._base, self._base_timestamp = batch.count, batch.base_offset, batch.base_timestamp
        self._delta_max = batch.last_offset_delta
        self._equal, self._keyless = _Window(batch.count), _Window(batch.count)
        self._headers = HeaderReader()

    @property
    def content_bytes(self) -> int:
        """Return the decompressed size of the batch."""
        return len(self._data)

    def read(self) -> None:
        """Read all records. Raise DecodeError if they are damaged."""
        try:
            self._read()
        except IndexError:
            raise DecodeError(f"records cut off at {len(self._data)} bytes") from None

    def _read(self) -> None:
        while self._left:
            is_equal, size = self._read_singly()
            if self._left and is_equal:
                self._read_run(size)
            elif self._left:
                self._read_keyless()
        if self._pos != len(self._data):
            raise DecodeError(f"{len(self._data) - self._pos} bytes after {self._count} records")

    def _read_singly(self) -> tuple[bool, int]:
        """Read records one by one, up to a record after which a run may be read.

        Return whether that last record has the size of the record before it, and its size. Most integers of a record
        have one or two bytes, and its timestamp delta is usually that of the record before.
        """
        data, columns, limit = self._data, self.columns, len(self._data)
        equal_max, keyless_max = self._equal.left_max, self._keyless.left_max
        offsets, timestamps, keys, values = columns.offsets, columns.timestamps, columns.keys, columns.values
        base, delta_max, pos = self._base, self._delta_max, self._pos
        size, stamp_byte, timestamp = 0, -1, 0
        for left in range(self._left - 1, -1, -1):
            start, before, size, second = pos, size, data[pos], data[pos + 1]
            if size < 128 and not size & 1:
                pos += 1
            elif size > 127 and second < 128 and not size & 1:
                size, pos = size & 127 | second << 7, pos + 2
            else:
                size, pos = _size(data, pos)
            end = pos + (size >> 1)
            if end > limit:
                raise DecodeError(f"record of {size >> 1} bytes, {limit - pos} left")
            if (byte := data[pos + 1]) == stamp_byte:
                pos += 2
            else:
                delta, pos = read_varlong(data, pos + 1)
                stamp_byte, timestamp = byte if byte < 128 else -1, self._base_timestamp + delta
            byte, second = data[pos], data[pos + 1]
            if byte < 128 or byte & 1 or second > 127:
                delta, pos = (byte >> 1, pos + 1) if byte < 128 and not byte & 1 else read_varint(data, pos)
            else:
                delta, pos = byte >> 1 & 63 | second << 6, pos + 2
            if not 0 <= delta <= delta_max:
                raise DecodeError(f"record of offset delta {delta}, after the last offset delta {delta_max}")
            byte, key = data[pos], None
            if byte == 1:
                pos += 1
            elif byte < 128 and not byte & 1:
                field = pos + 1 + (byte >> 1)
                key, pos = data[pos + 1 : field], field
            else:
                key, pos = read_field(data, pos)
            byte, second = data[pos], data[pos + 1]
            if byte & 1 or byte > 127 < second:
                value, pos = read_field(data, pos)
            else:
                field, pos = (byte >> 1, pos + 1) if byte < 128 else (byte >> 1 & 63 | second << 6, pos + 2)
                value = data[pos : pos + field]
                pos += field
            pos = self._read_headers(pos, end) if data[pos] or columns.headers else pos + 1
            if pos != end:
                raise DecodeError(f"record of offset delta {delta} ends at byte {pos}, not {end}")
            offsets.append(base + delta)
            timestamps.append(timestamp)
            keys.append(key)
            values.append(value)
            if left <= equal_max if size == before else left <= keyless_max and key is None and before:
                break
        self._pos, self._left = pos, left
        return size == before, pos - start

    def _read_run(self, size: int) -> None:
        """Read the run that begins with the last record, of `size` bytes, if there is one."""
        columns = self.columns
        delta = columns.offsets[-1] - self._base
        records_max = min(self._equal.records, self._left + 1, self._delta_max - delta + 1)
        run = equal_run_at(self._data, self._pos - size, size, delta, records_max)
        if run is None:
            self._equal.failed(self._left)
            return
        self._equal.succeeded(is_whole=run.records == records_max)
        more = run.records - 1
        self._pos, self._left = self._pos + more * size, self._left - more
        self._add_run(run)

    def _add_run(self, run: EqualRun) -> None:
        """Add the records of a run behind its first one, which is the last record of the columns."""
        columns, base, more, found = self.columns, self._base_timestamp, run.records - 1, run.columns()
        offset = columns.offsets[-1] + 1
        columns.offsets.extend(range(offset, offset + more))
        if found.stamps is None:
            columns.timestamps += columns.timestamps[-1:] * more
        else:
            columns.timestamps += [base + stamp for stamp in found.stamps[1:]]
        columns.keys.extend([None] * more if found.keys is None else found.keys[1:])
        columns.values.extend([None] * more if found.values is None else found.values[1:])
        if columns.headers is not None:
            columns.headers.extend([()] * more if found.headers is None else found.headers[1:])

    def _read_keyless(self) -> None:
        """Read the records after the last record that have no key and its timestamp."""
        columns, timestamp = self.columns, self.columns.timestamps[-1]
        while self._left and columns.headers is None:
            delta = columns.offsets[-1] - self._base + 1
            records_max = min(self._keyless.records, _KEYLESS_MAX, self._left, self._delta_max - delta + 1)
            stamp = timestamp - self._base_timestamp
            run = keyless_run_at(self._data, self._pos, stamp, delta, records_max)
            if run is None or not run.values:
                break
            self._keyless.succeeded(is_whole=True)
            count = len(run.values)
            self._pos, self._left = run.end, self._left - count
            columns.offsets.extend(range(self._base + delta, self._base + delta + count))
            columns.timestamps += [timestamp] * count
            columns.keys += [None] * count
            columns.values += run.values
        self._keyless.failed(self._left)

    def _read_headers(self, pos: int, end: int) -> int:
        """Read the headers at `pos` of the record after the columns, and return the position after them."""
        columns = self.columns
        headers, pos = self._headers.read(self._data, pos, end)
        if columns.headers is None:
            columns.headers = [()] * len(columns)
        columns.headers.append(headers)
        return pos


def _size(data: bytes, pos: int) -> tuple[int, int]:
    """Return twice the length at `pos`, and the position after it."""
    size, pos = read_varint(data, pos)
    if size < 0:
        raise DecodeError(f"record of {size} bytes")
    return size << 1, pos
