"""The run manifest of a job, which lies beside its checkpoint: what the checkpoint belongs to.

A checkpoint holds offsets. They mean something else in another cluster, in a topic that was created again, and for
another job, so a run with other facts is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from pykbroker.pipeline.cluster import ClusterFacts, recreated_topics
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.storage import Storage, real_path

TARGET = "target"
"""The option that names the place of what the job writes."""
CONNECTOR = "connector"
"""The option that names the connector, whose offsets in the checkpoint another one cannot read."""
MANIFEST = "run.json"
OWN = re.compile(rf"lock|\.?{re.escape(MANIFEST)}\.(?:[0-9a-f]+\.)?tmp")
"""The files that a new checkpoint may have before its manifest."""


class RunManifest(msgspec.Struct, frozen=True):
    """The facts of the run that began a checkpoint. `options` are those that may not change, such as the target.

    `run_id` is random. What the job writes refers to it.
    """

    run_id: str
    job: str
    cluster_id: str
    topic_ids: dict[str, str]
    options: dict[str, str] = {}


def planned_run(
    checkpoint: Storage, job: str, facts: ClusterFacts, options: Mapping[str, str], *, is_moved: bool = False
) -> RunManifest:
    """Return the manifest of a new checkpoint, or that of an earlier run with the topics that are new. Write nothing.

    `is_moved`: it has the new place of what the run writes. Raise StateConflict if the checkpoint belongs to another
    job, cluster or target, or if a topic was created again.
    """
    wanted = RunManifest(uuid4().hex, job, facts.cluster_id, facts.topic_ids, dict(options))
    if not checkpoint.exists(MANIFEST):
        if any(OWN.fullmatch(each.path) is None for each in checkpoint.files()):
            raise StateConflict(
                f"{checkpoint.directory} has files, but no {MANIFEST}: it is the checkpoint of something else. "
                "Choose another with --checkpoint"
            )
        return wanted
    found = read_manifest(checkpoint)
    if is_moved:
        found = replace(found, options={**found.options, TARGET: options[TARGET]})
    _compare(checkpoint.directory, found, wanted)
    return _with_topics(checkpoint, found, facts.topic_ids)


def note_run(checkpoint: Storage, manifest: RunManifest) -> None:
    """Write the manifest of a run that may begin, unless it is there already."""
    if not checkpoint.exists(MANIFEST):
        checkpoint.create(MANIFEST, _encoded(manifest))
    elif read_manifest(checkpoint) != manifest:
        checkpoint.write(MANIFEST, _encoded(manifest))


def remember_topics(checkpoint: Storage, manifest: RunManifest, topic_ids: Mapping[str, str]) -> RunManifest:
    """Add the ids of new topics to a manifest. Raise StateConflict if a topic was created again."""
    merged = _with_topics(checkpoint, manifest, topic_ids)
    if merged != manifest:
        checkpoint.write(MANIFEST, _encoded(merged))
    return merged


def _with_topics(checkpoint: Storage, manifest: RunManifest, topic_ids: Mapping[str, str]) -> RunManifest:
    require_same_topics(manifest.topic_ids, topic_ids, checkpoint.directory)
    return replace(manifest, topic_ids={**manifest.topic_ids, **topic_ids})


def read_manifest(checkpoint: Storage) -> RunManifest:
    """Return the manifest of a checkpoint. Raise StateConflict if it is damaged."""
    try:
        return msgspec.json.decode(checkpoint.read(MANIFEST), type=RunManifest)
    except msgspec.MsgspecError as error:
        raise StateConflict(f"{checkpoint.directory}/{MANIFEST} is damaged: {error}") from None


def _compare(directory: str, found: RunManifest, wanted: RunManifest) -> None:
    advice = "choose another directory with --checkpoint"
    if found.job != wanted.job:
        raise StateConflict(f"{directory} is a checkpoint of the job '{found.job}', not of '{wanted.job}': {advice}")
    if found.cluster_id != wanted.cluster_id:
        text = f"{directory} belongs to the cluster {found.cluster_id}, and the brokers are of {wanted.cluster_id}"
        raise StateConflict(f"{text}: {advice}")
    for name, value in found.options.items():
        if not _is_same(name, wanted.options.get(name, value), value):
            text = f"{directory} belongs to a run with {name}={value}, not {name}={wanted.options[name]}"
            if name == CONNECTOR:
                raise StateConflict(f"{text}: go on with --connector {value}")
            if name == TARGET:
                raise StateConflict(f"{text}: give --moved if it was moved there from {value}. Otherwise, {advice}")
            raise StateConflict(f"{text}: {advice}")


def _is_same(name: str, one: str, other: str) -> bool:
    return one == other or (name == TARGET and real_path(one) == real_path(other))


def require_same_topics(before: Mapping[str, str], now: Mapping[str, str], directory: str) -> None:
    """Raise StateConflict if a topic was deleted and created again since the checkpoint began."""
    if recreated := recreated_topics(before, now):
        raise StateConflict(
            f"topic {', '.join(recreated)} was deleted and created again since {directory} began: its offsets mean "
            "other records now. Archive it into a new directory, with a new checkpoint"
        )


def _encoded(manifest: RunManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest))
