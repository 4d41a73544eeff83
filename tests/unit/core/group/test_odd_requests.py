"""Random requests of all group APIs with unusual values: each is answered or refused, without other effects."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.group.requests import FetchOffsets
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.outcome import Entry
from tests.unit.core.group.harness import subscription
from tests.unit.core.group.test_consumer import ConsumerGroupHarness, topics
from tests.unit.core.group.test_migration import assigned, owning
from tests.unit.core.group.test_random_migration import stored_state
from wire.api import ApiKey
from wire.apis import APIS
from wire.error_codes import ErrorCode
from wire.frame import encode_response
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.stored.framing import decode_key, decode_versioned, encode_key, encode_versioned
from wire.stored.group import GROUP_RECORDS

INT32 = (-(2**31), -3, -2, -1, 0, 1, 2, 3, 2**31 - 1)
BYTES = (
    b"",
    b"x",
    b"\xff\xff",
    b"\x00\x03\x7f\xff\xff\xff",
    assigned(0),
    assigned(0, 9, -1),
    assigned(1, user_data=b"x"),
    subscription("t"),
    owning(1, 2)["range"],
    bytes(5000),
)
PATTERNS = (None, None, "", "t.*", "(", "(a*)*b", "x{1000}", "(" * 200, "[tu]|.*", "\0")
REQUESTS_MAX_OF_A_LIFE = 250


class RequestGenerator:
    """A generator of random requests. Half are valid, since it reuses member ids and generations from responses."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.ids, self.generations = ["", "a", "b", "m" * 300, " "], [0]
        self.late = seed % 3 * 50  # After this many requests no member uses the consumer protocol.

    def learn(self, reply: Any) -> None:
        """Remember the ids and generations of a response, as a client would."""
        member_id = getattr(reply, "member_id", None)
        if member_id and member_id not in self.ids:
            self.ids.append(member_id)
        generation = getattr(reply, "generation_id", 0) or getattr(reply, "member_epoch", 0)
        if generation > 0:
            self.generations.append(generation)

    @property
    def sane(self) -> bool:
        return self.draw.random() < 0.5

    def one(self, *values: Any) -> Any:
        return self.draw.choice(values)

    def int32(self) -> int:
        return self.draw.choice(self.generations[-3:] if self.sane else INT32)

    def group(self) -> str:
        return "g" if self.sane else str(self.one("g", "h", "", " "))

    def member(self) -> str:
        return self.draw.choice(self.ids[-3:] if self.sane else self.ids)

    def instance(self) -> str | None:
        return None if self.sane else self.draw.choice((None, "", "i", "j"))

    def some(self, make: Any) -> list[Any]:
        return [make() for _ in range(self.draw.randrange(4))]

    def partitions(self) -> TopicPartitions:
        return TopicPartitions(self.one(b"t" * 16, b"u" * 16, bytes(16)), self.some(self.int32))

    def names(self) -> list[str]:
        return self.some(lambda: self.one("t", "u", "", "nosuch", "t" * 300))

    def request(self) -> Any:
        kinds = (
            self.join,
            self.sync,
            self.beat,
            self.leave,
            self.heartbeat,
            self.commit,
            self.fetch,
            self.transact,
            self.forget,
            self.remove,
            self.tell,
            self.join,
            self.heartbeat,
        )
        self.late -= 1
        return self.draw.choice([one for one in kinds if self.late < 0 or one != self.heartbeat])()

    def join(self) -> Any:
        if self.sane:
            return JoinGroupRequest(
                "g",
                30_000,
                60_000,
                self.draw.choice(self.ids[-3:]),
                self.instance(),
                "consumer",
                [JoinGroupRequestProtocol("range", owning(names=("t", *self.names()))["range"])],
            )
        return JoinGroupRequest(
            self.group(),
            self.one(30_000, 6000, self.int32()),
            self.one(60_000, self.int32()),
            self.member(),
            self.instance(),
            self.one("consumer", "consumer", "connect", ""),
            [
                JoinGroupRequestProtocol(self.one("range", "range", "sticky", ""), self.draw.choice(BYTES))
                for _ in range(self.draw.randrange(3))
            ],
        )

    def sync(self) -> Any:
        if self.sane:
            return SyncGroupRequest(
                "g",
                self.generations[-1],
                self.member(),
                None,
                "consumer",
                "range",
                self.some(lambda: SyncGroupRequestAssignment(self.member(), assigned(self.draw.randrange(5)))),
            )
        return SyncGroupRequest(
            self.group(),
            self.int32(),
            self.member(),
            self.instance(),
            self.one("consumer", None, "x"),
            self.one("range", None, "sticky"),
            self.some(lambda: SyncGroupRequestAssignment(self.member(), self.draw.choice(BYTES))),
        )

    def beat(self) -> Any:
        return HeartbeatRequest(self.group(), self.int32(), self.member(), self.instance())

    def leave(self) -> Any:
        return LeaveGroupRequest(
            self.group(), self.member(), self.some(lambda: MemberIdentity(self.member(), self.instance()))
        )

    def heartbeat(self) -> Any:
        return ConsumerGroupHeartbeatRequest(
            self.group(),
            self.member(),
            self.one(0, 0, self.int32()),
            self.instance(),
            self.one(None, "r", ""),
            self.one(60_000, self.int32()),
            self.one(None, self.names(), ["t"]),
            self.draw.choice(PATTERNS),
            self.one(None, None, "range", "uniform", ""),
            self.one(None, [], self.some(self.partitions)),
        )

    def commit(self) -> Any:
        return OffsetCommitRequest(
            self.group(),
            self.int32(),
            self.member(),
            self.instance(),
            self.one(-1, 0, 2**63 - 1, -(2**63)),
            self.some(
                lambda: OffsetCommitRequestTopic(
                    self.one("t", "u", "?"),
                    partitions=self.some(
                        lambda: OffsetCommitRequestPartition(
                            self.int32(),
                            self.one(-1, 5, 2**63 - 1),
                            self.int32(),
                            self.one(None, "", "x" * 4096, "x" * 4097),
                        )
                    ),
                )
            ),
        )

    def transact(self) -> Any:
        return TxnOffsetCommitRequest(
            "tx",
            self.group(),
            5,
            0,
            self.int32(),
            self.member(),
            self.instance(),
            self.some(
                lambda: TxnOffsetCommitRequestTopic(
                    self.one("t", "?"), self.some(lambda: TxnOffsetCommitRequestPartition(self.int32(), 7))
                )
            ),
        )

    def fetch(self) -> Any:
        listed = self.one(
            None,
            self.some(lambda: OffsetFetchRequestTopics(self.one("t", "?"), partition_indexes=self.some(self.int32))),
        )
        group = OffsetFetchRequestGroup(self.group(), self.one(None, self.member()), self.int32(), listed)
        return FetchOffsets(group, require_stable=self.one(True, False))

    def forget(self) -> Any:
        return OffsetDeleteRequest(
            self.group(),
            self.some(
                lambda: OffsetDeleteRequestTopic(
                    self.one("t", "?"), self.some(lambda: OffsetDeleteRequestPartition(self.int32()))
                )
            ),
        )

    def remove(self) -> Any:
        return DeleteGroupsRequest(self.some(self.group)) if self.draw.random() < 0.2 else self.tell()

    def tell(self) -> Any:
        return self.one(DescribeGroupsRequest, ConsumerGroupDescribeRequest)(self.some(self.group))


def fits(request: Any, version: int, answer: Any) -> None:
    """Check that the response can be encoded in the version of its request."""
    if not isinstance(request, FetchOffsets):
        encode_response(answer, version, 1)


@pytest.mark.parametrize("seed", range(60))
def test_every_request_is_answered_once_and_replaying_the_records_gives_the_same_groups(seed: int) -> None:
    odd = RequestGenerator(seed)
    harness = ConsumerGroupHarness(
        topics(t=4, u=2),
        settings=GroupSettings(group_initial_rebalance_delay_ms=0, group_max_size=6, group_consumer_max_size=6),
    )
    shadow, asked = harness.new_machine(), {}
    for number in range(REQUESTS_MAX_OF_A_LIFE):
        request = odd.request()
        version = 0
        if not isinstance(request, FetchOffsets):
            span = APIS[ApiKey(type(request).key)].advertised
            version = odd.draw.randrange(span.first, span.last + 1)
        asked[number] = request, version
        before = len(harness.replies)
        answer = harness.ask(request, version, number)
        refused = isinstance(answer, ErrorCode)
        assert not refused or len(harness.replies) == before, "a refused request causes no replies"
        if odd.draw.random() < 0.2:
            harness.wait(odd.one(0, 1, 3000, 20_000))
        for reply in list(harness.replies.values())[before:]:
            odd.learn(reply)
    for token, reply in harness.replies.items():
        fits(*asked[token], reply)
    for offset, record in enumerate(harness.log):
        shadow.replay(Entry(offset, record, record.producer_id, record.producer_epoch))
        assert isinstance(record, CoordinatorRecord)
        assert decode_key(GROUP_RECORDS, encode_key(record.key)) == record.key
        if record.value is not None:
            again = decode_versioned(type(record.value), encode_versioned(record.value, record.version))
            assert encode_versioned(again, record.version) == encode_versioned(record.value, record.version)
    known, rebuilt = (
        {name: stored_state(group) for name, group in machine._shard.groups.items()}
        for machine in (harness.machine, shadow)
    )
    assert {name: what for name, what in known.items() if what} == {
        name: what for name, what in rebuilt.items() if known.get(name) is not None
    }
    assert vars(harness.machine._shard.offsets) == vars(shadow._shard.offsets)
    groups = harness.machine._shard.groups.values()
    assert all(len(group.members) <= 6 for group in groups)
    members = sum(len(group.members) + len(getattr(group, "pending", ())) for group in groups)
    assert len(harness.machine._shard.timers) <= 3 + 4 * members + 3 * len(groups)
