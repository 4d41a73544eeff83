"""Spark's checkpoint before a query goes on from it: its files are whole, and each partition has its start.

The checkpoint has a file `offsets/N` for each batch that is planned, and `commits/N` once it is written. `metadata` has
the id of the query, and `sources/0/0` the offsets at which the connector "jvm" has begun.

Spark makes none of these files durable, so that a loss of power may cut them. `mend` writes those about batches that
the target has again, from the ends that the target has noted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.source.offset_json import nested_of
from pykbroker.pipeline.source.stream_offsets import STARTING
from pykbroker.pipeline.spark_offsets import (
    FIRST_OFFSETS,
    SPARK,
    Ends,
    by_partition,
    last_done,
    left_batch,
    planned_ends,
)
from pykbroker.pipeline.storage import Storage

METADATA = "metadata"
LINES = {"offsets": 3, "commits": 2, FIRST_OFFSETS: 2}
"""The lines of a file: a version, and texts of JSON."""
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
"""The content of `commits/N` for a query without watermarks."""
PLAN_HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n'
"""The content of `offsets/N` before the offsets, for a batch that is not computed again."""
FIRST_HEAD = "\0v1\n"
"""The content of `sources/0/0` before the offsets."""
RESTORE = "restore the checkpoint and the archive from backups of one time, or archive into a new directory"


def mend(
    checkpoint: Storage, connector: str, noted: Callable[[int], Ends | None], topics: Collection[str]
) -> list[str]:
    """Write damaged files about batches again that the target has. Return a sentence for each of them.

    `noted` returns the ends that the target has noted of a batch, or None if it has none. They may have topics that
    were left out before. The ends of `topics` and of the plans that are whole are taken over. The plan before a left
    batch gets the partitions of that batch alone, which would seem to have lost the others.
    """
    last, done, said = _last(checkpoint), last_done(checkpoint), list[str]()
    left = left_batch(checkpoint)
    batches = [batch for batch in (last - 1, last) if batch >= 0]
    whole = [batch for batch in batches if not _trouble_of(checkpoint, f"offsets/{batch}")]
    known = {*topics}.union(*(planned_ends(checkpoint, batch, or_start=True) for batch in whole))
    until = planned_ends(checkpoint, left) if left is not None and left in whole else None

    def write(name: str, content: Callable[[Ends], str], *batches: int) -> None:
        trouble = _trouble_of(checkpoint, name)
        ends = next((found for batch in batches if (found := noted(batch))), None) if trouble else None
        if ends:
            _write(checkpoint, name, content({topic: each for topic, each in ends.items() if topic in known}))
            said.append(f"{SPARK}/{name} was {trouble}, and is written again from the commits of the target")

    def plan(ends: Ends, batch: int) -> str:
        """Return a plan. The first one of the connector "python" also says where the stream has started."""
        if until is not None and batch + 1 == left:
            ends = {
                topic: {index: each[index] for index in each.keys() & until[topic]}
                for topic, each in ends.items()
                if topic in until
            }
        return PLAN_HEAD + _text({STARTING: ends, **ends} if connector == "python" and not batch else ends)

    for batch in batches:
        write(f"offsets/{batch}", partial(plan, batch=batch), batch, last)
    if done is not None:
        write(f"commits/{done}", lambda _: COMMIT, done)
    if connector == "jvm" and left == 0:
        write(FIRST_OFFSETS, lambda ends: FIRST_HEAD + _text(ends), 0)
    return said


def require_whole(checkpoint: Storage, connector: str) -> None:
    """Raise StateConflict if a file from which Spark goes on is missing, empty or cut. The error says what to do.

    `connector` is that of the checkpoint, and empty if it is unknown. The target lacks the batches of damaged files,
    or does not note their ends, since `mend` would have written them again otherwise.
    """
    last = _last(checkpoint)
    if last < 0:
        return
    _require_metadata(checkpoint)
    left = left_batch(checkpoint)
    for batch in (last - 1, last):
        if batch >= 0:
            advice = f"delete it, and the next run plans the batch again; or {RESTORE}" if batch == left else RESTORE
            _require_lines(checkpoint, f"offsets/{batch}", advice)
    if (done := last_done(checkpoint)) is not None:
        _require_lines(checkpoint, f"commits/{done}", RESTORE)
    if connector == "jvm" and left == 0:
        advice = f"delete {SPARK}/{FIRST_OFFSETS} and {SPARK}/offsets/0: no batch is done yet"
        _require_lines(checkpoint, FIRST_OFFSETS, advice)
    elif checkpoint.exists(f"{SPARK}/{FIRST_OFFSETS}"):
        _require_lines(checkpoint, FIRST_OFFSETS, RESTORE if left == 0 else "delete it: the first batch alone needs it")


class BegunPartitions(NamedTuple):
    """The offsets at which partitions begin that the last batch which is done does not have.

    Partitions in `resumed` go on behind an earlier batch, and partitions in `new` were in no batch.
    """

    resumed: dict[TopicPartition, int]
    new: dict[TopicPartition, int]


def begin_partitions(
    checkpoint: Storage,
    starts: Mapping[TopicPartition, int],
    archived: Callable[[], Mapping[TopicPartition, int]],
    *,
    may_skip: bool = False,
    is_lost: bool = False,
) -> BegunPartitions:
    """Note where partitions begin that the last batch which is done does not have. Return what was noted.

    Both connectors begin a partition that they do not know at offset 0, and take what its log has lost before for lost
    records. That is right for a new partition of a known topic. A topic begins at its start when it is first seen, and
    what its log loses from then on is lost. A partition goes on behind the earlier batches that have read it, whose
    ends `archived` returns: its topic may have been left out, or a broker with old metadata may have hidden it. Spark
    reads the file again when a query starts.

    A query that `may_skip` leaves out of a batch what a broker with old metadata hides while it looks for the starts of
    new partitions. All of them are noted then: those of known topics at 0, and those without a start, too. Another
    query takes what is hidden for lost records: `is_lost` notes new partitions of known topics at 0 once there are any.

    While a batch is left, its partitions alone are noted: it would seem to have lost the others. That the batch before
    is done is durable first, since it could not be repeated with other partitions.
    """
    done = last_done(checkpoint)
    if done is None:
        return BegunPartitions({}, {})
    known = by_partition(planned_ends(checkpoint, done, or_start=True))
    left = left_batch(checkpoint)
    planned = starts if left is None else by_partition(planned_ends(checkpoint, left))
    found = {key: starts.get(key, 0) for key in planned} if may_skip else starts
    lacking = {key: offset for key, offset in found.items() if key not in known and key in planned}
    if not lacking:
        return BegunPartitions({}, {})
    before = archived()
    topics = {key.topic for key in (*known, *before)}
    resumed = {key: before[key] for key in lacking if before.get(key)}
    new = {key: offset for key, offset in lacking.items() if key.topic not in topics}
    if may_skip or is_lost:
        new = dict.fromkeys(lacking.keys() - resumed.keys(), 0) | new
    if resumed or new:
        _add(checkpoint, done, resumed | new)
    return BegunPartitions(resumed, new)


def begun_anew(checkpoint: Storage) -> frozenset[TopicPartition]:
    """Return the partitions of a left batch that the last one which is done does not have."""
    done, left = last_done(checkpoint), left_batch(checkpoint)
    if done is None or left is None:
        return frozenset()
    known, planned = (by_partition(planned_ends(checkpoint, batch, or_start=True)) for batch in (done, left))
    return frozenset(planned.keys() - known.keys())


def keep_partitions(checkpoint: Storage, existing: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Add existing partitions to a left batch that the batch before it has. Return their ends, which do not change.

    A broker with old metadata has hidden them from the left batch, to which they would seem to be deleted at each
    repeat.
    """
    done, left = last_done(checkpoint), left_batch(checkpoint)
    if done is None or left is None:
        return {}
    planned = planned_ends(checkpoint, left)
    before = by_partition(planned_ends(checkpoint, done, or_start=True))
    lacking = before.keys() & {*existing} - by_partition(planned).keys()
    if not planned or not lacking:
        return {}
    kept = {key: before[key] for key in lacking}
    _add(checkpoint, left, kept)
    return kept


def _add(checkpoint: Storage, batch: int, offsets: Mapping[TopicPartition, int]) -> None:
    """Add partitions to the ends of a batch."""
    *head, text = checkpoint.read(f"{SPARK}/offsets/{batch}").decode().splitlines()
    position: dict[str, Any] = msgspec.json.decode(text)
    place = position[STARTING] if position.keys() == {STARTING} else position
    for topic, partitions in nested_of(offsets).items():
        place[topic] = place.get(topic, {}) | partitions
    checkpoint.sync(f"{SPARK}/commits")
    _write(checkpoint, f"offsets/{batch}", "\n".join([*head, msgspec.json.encode(position).decode()]))


def _last(checkpoint: Storage) -> int:
    """Return the number of the last batch that is planned or done, or -1."""
    names = [
        each.path.rpartition("/")[2] for kind in ("offsets", "commits") for each in checkpoint.files(f"{SPARK}/{kind}")
    ]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def _text(ends: Mapping[str, Any]) -> str:
    return msgspec.json.encode(ends).decode()


def _write(checkpoint: Storage, name: str, content: str) -> None:
    directory, _, base = f"{SPARK}/{name}".rpartition("/")
    checkpoint.delete(f"{directory}/.{base}.crc")  # of the old content
    checkpoint.write(f"{directory}/{base}", content.encode())


def _require_metadata(checkpoint: Storage) -> None:
    content = _content(checkpoint, METADATA)
    if trouble := "missing" if content is None else _trouble(content, ("id",)):
        identity = msgspec.json.encode({"id": str(uuid4())}).decode()
        raise _damaged(checkpoint, METADATA, trouble, f"delete it, and write {identity} to it, the id of a query")


def _require_lines(checkpoint: Storage, name: str, advice: str) -> None:
    if trouble := _trouble_of(checkpoint, name):
        raise _damaged(checkpoint, name, trouble, advice)


def _trouble_of(checkpoint: Storage, name: str) -> str:
    """Return what is wrong with a file of lines, or nothing."""
    content = _content(checkpoint, name)
    if content is None:
        return "missing"
    if not content:
        return "empty"
    count = LINES[name if name == FIRST_OFFSETS else name.partition("/")[0]]
    lines = content.lstrip("\0").splitlines()  # Spark writes a zero byte before the offsets of a source
    if len(lines) != count:
        return f"cut: it has {len(lines)} lines in place of {count}"
    return next((found for line in lines[1:] if (found := _trouble(line))), "")


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
