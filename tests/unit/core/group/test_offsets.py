"""Tests of committed offsets: who may commit, fetching, expiration and deletion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.requests import ClientRequest, FetchOffsets, ForgetTopics
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.log.producers import Marker
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry
from tests.unit.core.group.harness import SESSION_MS, WALL_MS, GroupHarness
from wire.error_codes import ErrorCode
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.stored.group_offsets import LegacyOffsetCommitKey, LegacyOffsetCommitValue

CHECK_MS, RETENTION_MS = 600_000, 604_800_000


def fetched(
    harness: GroupHarness,
    group: str = "g",
    topics: dict[str, list[int]] | None = None,
    *,
    stable: bool = False,
    topic_id: bytes = bytes(16),
) -> Any:
    asked = (
        None
        if topics is None
        else [OffsetFetchRequestTopics(name, topic_id, partitions) for name, partitions in topics.items()]
    )
    response = harness.ask(FetchOffsets(OffsetFetchRequestGroup(group, topics=asked), stable), 0)
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.committed_leader_epoch, one.metadata)
        if not one.error_code
        else one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


def transact(
    harness: GroupHarness, offset: int, *, producer: int = 5, group: str = "g", generation: int = -1, member: str = ""
) -> Any:
    response = harness.ask(
        TxnOffsetCommitRequest(
            "tx",
            group,
            producer,
            0,
            generation,
            member,
            topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, offset)])],
        ),
        3,
    )
    return response if isinstance(response, ErrorCode) else response.topics[0].partitions[0].error_code


def deleted(harness: GroupHarness, topic: str = "t", group: str = "g") -> Any:
    response = harness.ask(
        OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]), 0
    )
    return response if isinstance(response, ErrorCode) else response.topics[0].partitions[0].error_code


def test_offset_delete_yields_after_each_partition() -> None:
    class Counted(list[OffsetDeleteRequestPartition]):
        read = 0

        def __iter__(self) -> Iterator[OffsetDeleteRequestPartition]:
            for one in super().__iter__():
                self.read += 1
                yield one

    harness, partitions = GroupHarness(), Counted(OffsetDeleteRequestPartition(index) for index in range(100))
    assert harness.commit(5) == 0
    asked = ClientRequest(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", partitions)]), 0)
    steps: Any = harness.machine.handle(asked, object(), Now(harness.now_ms, harness.wall_ms))
    reads = [partitions.read for _ in steps]
    assert reads == list(range(1, 101))


def test_committed_offsets_are_fetched_before_and_after_a_restart() -> None:
    harness = GroupHarness()
    assert harness.commit(5, metadata="m\u00e4x") == harness.commit(6, partition=2, metadata=None) == 0
    for one in (harness, harness.restarted()):
        assert fetched(one) == {("t", 0): (5, 7, "m\u00e4x"), ("t", 2): (6, 7, "")}
        assert fetched(one, topics={"t": [0, 1], "u": [0]}) == {
            ("t", 0): (5, 7, "m\u00e4x"),
            ("t", 1): (-1, -1, ""),
            ("u", 0): (-1, -1, ""),
        }
        assert one.state() == "Empty"
        assert one.describe().protocol_type == ""
    assert fetched(harness, "nobody") == {}
    assert fetched(harness, "nobody", {"t": [0]}) == {("t", 0): (-1, -1, "")}
    record = harness.log[0]
    assert (record.version, record.value.commit_timestamp, record.producer_id) == (4, WALL_MS, -1)


def test_offset_records_of_brokers_before_0_9_are_fetched_and_deleted() -> None:
    harness, key = GroupHarness(), LegacyOffsetCommitKey("g", "t", 3)
    harness.machine.replay(Entry(0, CoordinatorRecord(key, LegacyOffsetCommitValue(8, "m", WALL_MS), 0)))
    assert fetched(harness) == {("t", 3): (8, -1, "m")}
    harness.machine.replay(Entry(1, CoordinatorRecord(key, None)))
    assert fetched(harness) == {}


def test_members_commit_in_their_generation() -> None:
    harness = GroupHarness()
    (member,) = harness.stable(1)
    assert harness.commit(1, member) == 0
    assert harness.commit(1) == ErrorCode.UNKNOWN_MEMBER_ID, (
        "a client without a member id may commit only if the group is empty"
    )
    member.generation_id += 1
    assert harness.commit(1, member) == ErrorCode.ILLEGAL_GENERATION
    member.generation_id -= 1
    assert harness.commit(1, member, group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.commit(1, member, group="none", version=8) == ErrorCode.ILLEGAL_GENERATION
    assert harness.commit(1, member, group="none", version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    rejoined = harness.join(member.member_id)
    assert harness.commit(2, rejoined) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.sync(rejoined)
    for _ in range(3):
        harness.wait(SESSION_MS - 1)
        assert harness.commit(3, rejoined) == 0, "a commit renews the session like a heartbeat"
    harness.leave((member.member_id, None))
    assert harness.commit(4) == 0
    assert fetched(harness) == {("t", 0): (4, 7, "")}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x" * 4096, 0),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\u20ac" * 4096, 0),
        ("\U0001f600" * 2048, 0),
        ("\U0001f600" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_oversized_metadata_is_refused(text: str, code: int) -> None:
    harness = GroupHarness()
    assert harness.commit(1, metadata=text) == code
    assert fetched(harness) == ({} if code else {("t", 0): (1, 7, text)})


def test_transactional_offsets_apply_once_their_marker_is_written() -> None:
    harness = GroupHarness()
    harness.commit(1)
    assert transact(harness, 10) == transact(harness, 20, producer=6) == 0
    assert fetched(harness) == {("t", 0): (1, 7, "")}
    assert (
        fetched(harness, stable=True)
        == fetched(harness, topics={"t": [0]}, stable=True)
        == {("t", 0): ErrorCode.UNSTABLE_OFFSET_COMMIT}
    )
    harness.ask(Marker(6, 0, commit=False, coordinator_epoch=0), 0)
    harness = harness.restarted()
    assert fetched(harness, stable=True) == {("t", 0): ErrorCode.UNSTABLE_OFFSET_COMMIT}
    harness.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    assert fetched(harness, stable=True) == fetched(harness.restarted()) == {("t", 0): (10, -1, "")}


def test_a_later_commit_overrides_an_earlier_transactional_offset() -> None:
    harness = GroupHarness()
    transact(harness, 10)
    harness.commit(11)
    harness.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    assert fetched(harness) == {("t", 0): (11, 7, "")}


def test_a_transactional_commit_that_names_a_member_is_checked() -> None:
    harness = GroupHarness()
    (member,) = harness.stable(1)
    assert transact(harness, 1) == 0
    assert transact(harness, 1, member="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert transact(harness, 1, member=member.member_id, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert transact(harness, 1, member=member.member_id, generation=1) == 0
    assert transact(harness, 1, group="none", generation=1) == ErrorCode.ILLEGAL_GENERATION


def test_offset_delete_refuses_subscribed_topics() -> None:
    harness = GroupHarness()
    assert deleted(harness) == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = harness.stable(1)
    harness.commit(1, member)
    harness.commit(1, member, topic="u")
    assert deleted(harness) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert deleted(harness, "u") == deleted(harness, "v") == 0
    assert fetched(harness) == {("t", 0): (1, 7, "")}
    harness.leave((member.member_id, None))
    transact(harness, 2)
    assert deleted(harness) == 0
    assert fetched(harness, stable=True) == {}
    harness.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    assert fetched(harness) == {} == fetched(harness.restarted())


def test_offset_delete_refuses_a_group_of_another_protocol_type() -> None:
    harness = GroupHarness()
    harness.join(token="a", version=3, kind="connect", protocols={"x": b""})
    assert deleted(harness) == ErrorCode.NON_EMPTY_GROUP


def test_delete_groups_deletes_all_offsets() -> None:
    harness = GroupHarness()
    (member,) = harness.stable(1)
    harness.commit(1, member)
    harness.commit(2, group="h")
    transact(harness, 3, group="h")
    response = harness.ask(DeleteGroupsRequest(["g", "h", "none", "g"]), 2)
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("h", 0),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert fetched(harness, "h", stable=True) == {}
    assert harness.state("h") == "Dead"
    assert harness.state() == "Stable"
    assert harness.restarted().state("h") == "Dead"


def test_offsets_of_deleted_topics_are_deleted() -> None:
    harness = GroupHarness()
    for group in ("g", "h"):
        for topic in ("t", "u"):
            harness.commit(1, group=group, topic=topic)
    harness.ask(ForgetTopics(frozenset(("t",))), 0)
    harness.wait(0)
    assert fetched(harness) == fetched(harness, "h") == {("u", 0): (1, 7, "")}


def test_an_offset_for_a_deleted_topic_does_not_apply_to_a_new_topic_of_that_name() -> None:
    harness = GroupHarness()
    harness.ask(ForgetTopics(frozenset()), 0)
    harness.commit(1)
    record = harness.log[-1]
    record.value.topic_id = b"1" * 16
    harness.machine.replay(Entry(99, record))
    assert (
        fetched(harness, topics={"t": [0]}, topic_id=b"1" * 16)
        == fetched(harness, topics={"t": [0]})
        == {("t", 0): (1, 7, "")}
    )
    assert fetched(harness, topics={"t": [0]}, topic_id=b"2" * 16) == {("t", 0): (-1, -1, "")}


def test_offsets_of_groups_without_members_expire() -> None:
    harness = GroupHarness()
    harness.commit(1)
    harness.wait(RETENTION_MS - CHECK_MS)
    harness.commit(2, partition=1)
    harness.wait(CHECK_MS - 1)
    assert len(fetched(harness)) == 2
    harness.wait(CHECK_MS)
    assert fetched(harness) == {("t", 1): (2, 7, "")}
    assert harness.state() == "Empty"
    harness.wait(RETENTION_MS)
    assert fetched(harness) == {}
    assert harness.state() == "Dead" == harness.restarted().state()


def test_the_retention_of_offsets_starts_when_the_last_member_leaves() -> None:
    harness = GroupHarness(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_session_timeout_ms=2**31 - 1))
    harness.join(token="a", version=3, session_ms=2**31 - 1)
    harness.wait(0)
    member = harness.replies["a"]
    harness.sync(member)
    for topic in ("t", "u"):
        harness.commit(1, member, topic=topic)
    transact(harness, 9, member=member.member_id, generation=1)
    harness.wait(RETENTION_MS + CHECK_MS)
    assert set(fetched(harness)) == {("t", 0)}, "only offsets of the subscribed topic are kept"
    harness.leave((member.member_id, None))
    harness.wait(2 * RETENTION_MS)
    assert set(fetched(harness)) == {("t", 0)}, "offsets of an open transaction do not expire"
    harness.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    harness.wait(CHECK_MS)
    assert fetched(harness) == {}
    assert harness.state() == "Dead"


def test_an_old_client_chooses_the_retention_of_its_offsets() -> None:
    harness = GroupHarness()
    harness.commit(1, version=2, retention_time_ms=1000)
    assert (harness.log[-1].version, harness.log[-1].value.expire_timestamp) == (1, WALL_MS + 1000)
    harness = harness.restarted()
    harness.wait(CHECK_MS)
    assert fetched(harness) == {}


def test_a_group_with_a_pending_member_does_not_expire() -> None:
    harness = GroupHarness(GroupSettings(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=1))
    member_id = harness.new_id()
    harness.wait(10)
    assert harness.join(member_id) is None
    assert harness.state() == "PreparingRebalance"


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 1 - WALL_MS, -(2**63)])
def test_offsets_with_a_retention_beyond_the_largest_timestamp_never_expire(retention_ms: int) -> None:
    harness = GroupHarness()
    assert harness.commit(1, version=2, retention_time_ms=retention_ms) == ErrorCode.NONE
    assert harness.stored()[-1].expire_timestamp == min(WALL_MS + retention_ms, 2**63 - 1)
