"""Requests of OffsetCommit and OffsetFetch in random versions, recorded in the history."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec
import trio

from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.history import Commit, FetchedOffset, GroupHistory
from pykbroker.sim.groups.refusal import EVICTED, require
from pykbroker.sim.history import Place, SendOutcome
from wire.api import ApiKey
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from wire.sentinels import NO_GENERATION_ID, NO_OFFSET

INSTANCE_VERSION_FIRST, EPOCH_VERSION_FIRST = 7, 9
EVERYTHING_VERSION_FIRST, STABLE_VERSION_FIRST, GROUPS_VERSION_FIRST = 2, 7, 8
EVERYTHING = 0.2
"""The chance that a request asks for all offsets of the group.

Such a response omits partitions with pending transactional offsets.
"""


class Committer(msgspec.Struct, frozen=True):
    """The identity in OffsetCommit: a member, or none. `by_epoch` is true for a member of a consumer group."""

    member_id: str = ""
    generation: int = NO_GENERATION_ID
    instance_id: str | None = None
    by_epoch: bool = False


NOBODY = Committer()


async def commit_offsets(
    connection: SimConnection, history: GroupHistory, commits: Sequence[Commit], who: Committer = NOBODY
) -> None:
    """Commit all of these offsets for one group. Raise Evicted, Again or an error of LOST."""
    first = EPOCH_VERSION_FIRST if who.by_epoch else INSTANCE_VERSION_FIRST if who.instance_id else 0
    version = connection.any_version(ApiKey.OFFSET_COMMIT, first)
    request = OffsetCommitRequest(
        group_id=commits[0].group,
        generation_id_or_member_epoch=who.generation,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
    )
    for topic, of_topic in groupby(commits, key=lambda commit: commit.place[0]):
        request.topics.append(
            OffsetCommitRequestTopic(
                topic,
                connection.topic_id(topic),
                [
                    OffsetCommitRequestPartition(one.place[1], one.offset, committed_metadata=one.mark)
                    for one in of_topic
                ],
            )
        )
    history.commits += commits
    answer = await connection.ask(request, version)
    codes = [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]
    for commit, code in zip(commits, codes, strict=True):
        settle(commit, code)
    require(codes, history, commits[0].mark)


def settle(commit: Commit, code: ErrorCode) -> None:
    """Record the error code of the response to a commit."""
    if code is ErrorCode.NONE:
        commit.outcome, commit.ended_s = SendOutcome.ACKNOWLEDGED, trio.current_time()
    elif code in EVICTED:
        commit.outcome = SendOutcome.REFUSED


async def fetch_offsets(
    connection: SimConnection,
    history: GroupHistory,
    reader: str,
    group: str,
    places: Sequence[Place],
    *,
    stable: bool,
    who: Committer = NOBODY,
) -> dict[Place, int]:
    """Return the committed offsets, without partitions whose offsets are unstable.

    Raise Evicted, Again or an error of LOST.
    """
    version = connection.any_version(ApiKey.OFFSET_FETCH, STABLE_VERSION_FIRST if stable else EVERYTHING_VERSION_FIRST)
    everything = connection.dice.random() < EVERYTHING
    began_s = trio.current_time()
    answer = await connection.ask(
        _question(connection, version, group, None if everything else places, stable, who), version
    )
    group_response = answer.groups[0] if version >= GROUPS_VERSION_FIRST else answer
    require([ErrorCode(group_response.error_code)], history, reader)
    found: dict[Place, int] = {}
    unnamed = dict.fromkeys(places) if everything and not stable else {}
    for topic in group_response.topics:
        name = connection.topic_named(topic.name, getattr(topic, "topic_id", NIL))
        for one in topic.partitions:
            place, code = (name, one.partition_index), ErrorCode(one.error_code)
            unnamed.pop(place, None)
            if code is not ErrorCode.UNSTABLE_OFFSET_COMMIT:
                require([code], history, reader)
                found[place] = one.committed_offset
                history.fetched.append(
                    FetchedOffset(
                        reader, group, place, one.committed_offset, one.metadata or "", began_s, trio.current_time()
                    )
                )
    for place in unnamed:
        found[place] = NO_OFFSET
        history.fetched.append(FetchedOffset(reader, group, place, NO_OFFSET, "", began_s, trio.current_time()))
    return found


def _question(
    connection: SimConnection, version: int, group: str, places: Sequence[Place] | None, stable: bool, who: Committer
) -> OffsetFetchRequest:
    by_topic = groupby(sorted(places), key=lambda place: place[0]) if places is not None else None
    if version < GROUPS_VERSION_FIRST:
        topics = (
            None
            if by_topic is None
            else [OffsetFetchRequestTopic(topic, [index for _, index in found]) for topic, found in by_topic]
        )
        return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    asked = OffsetFetchRequestGroup(group_id=group, topics=None)
    if who.by_epoch and version >= EPOCH_VERSION_FIRST:
        asked.member_id, asked.member_epoch = who.member_id, who.generation
    if by_topic is not None:
        asked.topics = [
            OffsetFetchRequestTopics(topic, connection.topic_id(topic), [index for _, index in found])
            for topic, found in by_topic
        ]
    return OffsetFetchRequest(groups=[asked], require_stable=stable)
