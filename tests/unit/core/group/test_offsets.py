"""Committed offsets: permission to commit, fetching, expiration and deletion."""

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
from tests.unit.core.group.talk import SESSION_MS, WALL_MS, Talk
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
    talk: Talk,
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
    response = talk.ask(FetchOffsets(OffsetFetchRequestGroup(group, topics=asked), stable), 0)
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.committed_leader_epoch, one.metadata)
        if not one.error_code
        else one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


def transact(
    talk: Talk, offset: int, *, producer: int = 5, group: str = "g", generation: int = -1, member: str = ""
) -> Any:
    response = talk.ask(
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


def deleted(talk: Talk, topic: str = "t", group: str = "g") -> Any:
    response = talk.ask(
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

    talk, partitions = Talk(), Counted(OffsetDeleteRequestPartition(index) for index in range(100))
    assert talk.commit(5) == 0
    asked = ClientRequest(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", partitions)]), 0)
    steps: Any = talk.machine.handle(asked, object(), Now(talk.now_ms, talk.wall_ms))
    reads = [partitions.read for _ in steps]
    assert reads == list(range(1, 101))


def test_committed_offsets_are_fetched_before_and_after_a_restart() -> None:
    talk = Talk()
    assert talk.commit(5, metadata="m\u00e4x") == talk.commit(6, partition=2, metadata=None) == 0
    for one in (talk, talk.restarted()):
        assert fetched(one) == {("t", 0): (5, 7, "m\u00e4x"), ("t", 2): (6, 7, "")}
        assert fetched(one, topics={"t": [0, 1], "u": [0]}) == {
            ("t", 0): (5, 7, "m\u00e4x"),
            ("t", 1): (-1, -1, ""),
            ("u", 0): (-1, -1, ""),
        }
        assert one.state() == "Empty"
        assert one.describe().protocol_type == ""
    assert fetched(talk, "nobody") == {}
    assert fetched(talk, "nobody", {"t": [0]}) == {("t", 0): (-1, -1, "")}
    record = talk.log[0]
    assert (record.version, record.value.commit_timestamp, record.producer_id) == (4, WALL_MS, -1)


def test_offsets_of_brokers_before_0_9_are_fetched_and_deleted() -> None:
    talk, key = Talk(), LegacyOffsetCommitKey("g", "t", 3)
    talk.machine.replay(Entry(0, CoordinatorRecord(key, LegacyOffsetCommitValue(8, "m", WALL_MS), 0)))
    assert fetched(talk) == {("t", 3): (8, -1, "m")}
    talk.machine.replay(Entry(1, CoordinatorRecord(key, None)))
    assert fetched(talk) == {}


def test_members_commit_in_their_generation() -> None:
    talk = Talk()
    (member,) = talk.stable(1)
    assert talk.commit(1, member) == 0
    assert talk.commit(1) == ErrorCode.UNKNOWN_MEMBER_ID, "an admin must wait until the members are gone"
    member.generation_id += 1
    assert talk.commit(1, member) == ErrorCode.ILLEGAL_GENERATION
    member.generation_id -= 1
    assert talk.commit(1, member, group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.commit(1, member, group="none", version=8) == ErrorCode.ILLEGAL_GENERATION
    assert talk.commit(1, member, group="none", version=9) == ErrorCode.GROUP_ID_NOT_FOUND
    rejoined = talk.join(member.member_id)
    assert talk.commit(2, rejoined) == ErrorCode.REBALANCE_IN_PROGRESS
    talk.sync(rejoined)
    for _ in range(3):
        talk.wait(SESSION_MS - 1)
        assert talk.commit(3, rejoined) == 0, "a commit is a sign of life"
    talk.leave((member.member_id, None))
    assert talk.commit(4) == 0
    assert fetched(talk) == {("t", 0): (4, 7, "")}


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
    talk = Talk()
    assert talk.commit(1, metadata=text) == code
    assert fetched(talk) == ({} if code else {("t", 0): (1, 7, text)})


def test_offsets_of_a_transaction_apply_from_its_marker_on() -> None:
    talk = Talk()
    talk.commit(1)
    assert transact(talk, 10) == transact(talk, 20, producer=6) == 0
    assert fetched(talk) == {("t", 0): (1, 7, "")}
    assert (
        fetched(talk, stable=True)
        == fetched(talk, topics={"t": [0]}, stable=True)
        == {("t", 0): ErrorCode.UNSTABLE_OFFSET_COMMIT}
    )
    talk.ask(Marker(6, 0, commit=False, coordinator_epoch=0), 0)
    talk = talk.restarted()
    assert fetched(talk, stable=True) == {("t", 0): ErrorCode.UNSTABLE_OFFSET_COMMIT}
    talk.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    assert fetched(talk, stable=True) == fetched(talk.restarted()) == {("t", 0): (10, -1, "")}


def test_a_later_commit_overrides_an_earlier_transactional_one() -> None:
    talk = Talk()
    transact(talk, 10)
    talk.commit(11)
    talk.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    assert fetched(talk) == {("t", 0): (11, 7, "")}


def test_a_transactional_commit_that_names_a_member_is_checked() -> None:
    talk = Talk()
    (member,) = talk.stable(1)
    assert transact(talk, 1) == 0
    assert transact(talk, 1, member="x") == ErrorCode.UNKNOWN_MEMBER_ID
    assert transact(talk, 1, member=member.member_id, generation=2) == ErrorCode.ILLEGAL_GENERATION
    assert transact(talk, 1, member=member.member_id, generation=1) == 0
    assert transact(talk, 1, group="none", generation=1) == ErrorCode.ILLEGAL_GENERATION


def test_offset_delete_refuses_subscribed_topics() -> None:
    talk = Talk()
    assert deleted(talk) == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = talk.stable(1)
    talk.commit(1, member)
    talk.commit(1, member, topic="u")
    assert deleted(talk) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert deleted(talk, "u") == deleted(talk, "v") == 0
    assert fetched(talk) == {("t", 0): (1, 7, "")}
    talk.leave((member.member_id, None))
    transact(talk, 2)
    assert deleted(talk) == 0
    assert fetched(talk, stable=True) == {}
    talk.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    assert fetched(talk) == {} == fetched(talk.restarted())


def test_offset_delete_refuses_a_group_of_another_protocol_type() -> None:
    talk = Talk()
    talk.join(token="a", version=3, kind="connect", protocols={"x": b""})
    assert deleted(talk) == ErrorCode.NON_EMPTY_GROUP


def test_delete_groups_deletes_all_offsets() -> None:
    talk = Talk()
    (member,) = talk.stable(1)
    talk.commit(1, member)
    talk.commit(2, group="h")
    transact(talk, 3, group="h")
    response = talk.ask(DeleteGroupsRequest(["g", "h", "none", "g"]), 2)
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("h", 0),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert fetched(talk, "h", stable=True) == {}
    assert talk.state("h") == "Dead"
    assert talk.state() == "Stable"
    assert talk.restarted().state("h") == "Dead"


def test_offsets_of_deleted_topics_are_deleted() -> None:
    talk = Talk()
    for group in ("g", "h"):
        for topic in ("t", "u"):
            talk.commit(1, group=group, topic=topic)
    talk.ask(ForgetTopics(frozenset(("t",))), 0)
    talk.wait(0)
    assert fetched(talk) == fetched(talk, "h") == {("u", 0): (1, 7, "")}


def test_an_offset_of_an_earlier_topic_of_the_same_name_does_not_count() -> None:
    talk = Talk()
    talk.ask(ForgetTopics(frozenset()), 0)
    talk.commit(1)
    record = talk.log[-1]
    record.value.topic_id = b"1" * 16
    talk.machine.replay(Entry(99, record))
    assert (
        fetched(talk, topics={"t": [0]}, topic_id=b"1" * 16)
        == fetched(talk, topics={"t": [0]})
        == {("t", 0): (1, 7, "")}
    )
    assert fetched(talk, topics={"t": [0]}, topic_id=b"2" * 16) == {("t", 0): (-1, -1, "")}


def test_offsets_of_groups_without_members_expire() -> None:
    talk = Talk()
    talk.commit(1)
    talk.wait(RETENTION_MS - CHECK_MS)
    talk.commit(2, partition=1)
    talk.wait(CHECK_MS - 1)
    assert len(fetched(talk)) == 2
    talk.wait(CHECK_MS)
    assert fetched(talk) == {("t", 1): (2, 7, "")}
    assert talk.state() == "Empty"
    talk.wait(RETENTION_MS)
    assert fetched(talk) == {}
    assert talk.state() == "Dead" == talk.restarted().state()


def test_offsets_expire_counting_from_when_the_last_member_left() -> None:
    talk = Talk(GroupSettings(group_initial_rebalance_delay_ms=0, group_max_session_timeout_ms=2**31 - 1))
    talk.join(token="a", version=3, session_ms=2**31 - 1)
    talk.wait(0)
    member = talk.replies["a"]
    talk.sync(member)
    for topic in ("t", "u"):
        talk.commit(1, member, topic=topic)
    transact(talk, 9, member=member.member_id, generation=1)
    talk.wait(RETENTION_MS + CHECK_MS)
    assert set(fetched(talk)) == {("t", 0)}, "only the topic that is subscribed to"
    talk.leave((member.member_id, None))
    talk.wait(2 * RETENTION_MS)
    assert set(fetched(talk)) == {("t", 0)}, "a transaction is open"
    talk.ask(Marker(5, 0, commit=True, coordinator_epoch=0), 0)
    talk.wait(CHECK_MS)
    assert fetched(talk) == {}
    assert talk.state() == "Dead"


def test_old_clients_choose_the_retention_of_their_offsets() -> None:
    talk = Talk()
    talk.commit(1, version=2, retention_time_ms=1000)
    assert (talk.log[-1].version, talk.log[-1].value.expire_timestamp) == (1, WALL_MS + 1000)
    talk = talk.restarted()
    talk.wait(CHECK_MS)
    assert fetched(talk) == {}


def test_a_group_with_a_pending_member_does_not_expire() -> None:
    talk = Talk(GroupSettings(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=1))
    member_id = talk.new_id()
    talk.wait(10)
    assert talk.join(member_id) is None
    assert talk.state() == "PreparingRebalance"


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 1 - WALL_MS, -(2**63)])
def test_a_retention_beyond_the_largest_timestamp_never_ends(retention_ms: int) -> None:
    talk = Talk()
    assert talk.commit(1, version=2, retention_time_ms=retention_ms) == ErrorCode.NONE
    assert talk.stored()[-1].expire_timestamp == min(WALL_MS + retention_ms, 2**63 - 1)
