"""Spark's checkpoint before a query goes on from it: its files are whole, and new topics have a start.

The checkpoint has a file `offsets/N` for each batch that is planned, and `commits/N` once it is written. `metadata` has
the id of the query, and `sources/0/0` the offsets at which the connector "jvm" has begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.source.offset_json import nested_of
from pykbroker.pipeline.source.stream_offsets import STARTING
from pykbroker.pipeline.spark_offsets import FIRST_OFFSETS, SPARK, last_done, left_batch, planned_ends
from pykbroker.pipeline.storage import Storage

METADATA = "metadata"
LINES = {"offsets": 3, "commits": 2, FIRST_OFFSETS: 2}
"""The lines of a file: a version, and texts of JSON."""
RESTORE = "restore the checkpoint and the archive from backups of one time, or archive into a new directory"


def require_whole(checkpoint: Storage, connector: str) -> None:
    """Raise StateConflict if a file from which Spark goes on is missing, empty or cut. The error says what to do.

    `connector` is that of the checkpoint, and empty if it is unknown.
    """
    planned = _numbers(checkpoint, "offsets")
    done = last_done(checkpoint)
    if not planned and done is None:
        return
    _require_metadata(checkpoint)
    last = max([*planned, -1])
    if done is not None and done > last:
        raise _damaged(checkpoint, f"offsets/{done}", "missing", RESTORE)
    left = left_batch(checkpoint)
    for batch in (last - 1, last):
        if batch >= 0:
            is_left = batch == last == left
            advice = f"delete it, and the next run plans the batch again; or {RESTORE}" if is_left else RESTORE
            _require_lines(checkpoint, f"offsets/{batch}", LINES["offsets"], advice)
    if done is not None:
        advice = "delete it: the next run repeats the batch, whose records are in the archive once"
        _require_lines(checkpoint, f"commits/{done}", LINES["commits"], advice)
    is_needed = connector == "jvm" and left == 0
    if is_needed or checkpoint.exists(f"{SPARK}/{FIRST_OFFSETS}"):
        advice = f"delete {SPARK}/{FIRST_OFFSETS} and {SPARK}/offsets/0: no batch is done yet" if is_needed else RESTORE
        _require_lines(checkpoint, FIRST_OFFSETS, LINES[FIRST_OFFSETS], advice)


def begin_topics(checkpoint: Storage, starts: Mapping[TopicPartition, int]) -> list[str]:
    """Note the starts of topics that the last batch which is done does not have. Return their names.

    Both connectors begin a partition that they do not know at offset 0, and take what its log has lost before for lost
    records. That is right for a new partition of a known topic. A topic begins at its start when it is first seen, and
    what its log loses from then on is lost. Spark reads the file again when a query starts.

    While a batch is left, its topics alone are noted: it would seem to have lost the others.
    """
    done = last_done(checkpoint)
    if done is None:
        return []
    known = planned_ends(checkpoint, done, or_start=True)
    left = left_batch(checkpoint)
    planned = None if left is None else planned_ends(checkpoint, left)
    new = {
        key: offset
        for key, offset in starts.items()
        if key.topic not in known and (planned is None or key.topic in planned)
    }
    if not new:
        return []
    name = f"{SPARK}/offsets/{done}"
    *head, text = checkpoint.read(name).decode().splitlines()
    position: dict[str, Any] = msgspec.json.decode(text)
    place = position[STARTING] if position.keys() == {STARTING} else position
    place.update(nested_of(new))
    checkpoint.delete(f"{SPARK}/offsets/.{done}.crc")  # of the old content
    checkpoint.write(name, "\n".join([*head, msgspec.json.encode(position).decode()]).encode())
    return sorted({key.topic for key in new})


def _numbers(checkpoint: Storage, directory: str) -> list[int]:
    names = [each.path.rpartition("/")[2] for each in checkpoint.files(f"{SPARK}/{directory}")]
    return [int(name) for name in names if name.isdecimal()]


def _require_metadata(checkpoint: Storage) -> None:
    content = _content(checkpoint, METADATA)
    if trouble := "missing" if content is None else _trouble(content, ("id",)):
        identity = msgspec.json.encode({"id": str(uuid4())}).decode()
        raise _damaged(checkpoint, METADATA, trouble, f"delete it, and write {identity} to it, the id of a query")


def _require_lines(checkpoint: Storage, name: str, count: int, advice: str) -> None:
    content = _content(checkpoint, name)
    if content is None:
        raise _damaged(checkpoint, name, "missing", advice)
    lines = content.lstrip("\0").splitlines()  # Spark writes a zero byte before the offsets of a source
    trouble = "empty" if not content else f"cut: it has {len(lines)} lines in place of {count}"
    if len(lines) == count:
        trouble = next((found for line in lines[1:] if (found := _trouble(line))), "")
    if trouble:
        raise _damaged(checkpoint, name, trouble, advice)


def _content(checkpoint: Storage, name: str) -> str | None:
    path = f"{SPARK}/{name}"
    return checkpoint.read(path).decode(errors="replace") if checkpoint.exists(path) else None


def _trouble(text: str, keys: tuple[str, ...] = ()) -> str:
    """Return what is wrong with an object in JSON, or nothing."""
    if not text.strip("\0 \n"):
        return "empty"
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        return f"cut or damaged: {error}"
    lacking = [key for key in keys if key not in found]
    return f"damaged: it has no {lacking[0]}" if lacking else ""


def _damaged(checkpoint: Storage, name: str, trouble: str, advice: str) -> StateConflict:
    directory, _, base = f"{SPARK}/{name}".rpartition("/")
    beside = f" ({directory}/.{base}.crc beside it goes with it)" if "delete" in advice else ""
    return StateConflict(f"{checkpoint.directory}/{SPARK}/{name} is {trouble}. What to do: {advice}{beside}")
