"""The state of a consumer group, as its records define it."""

from __future__ import annotations

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.consumer.assignment import NOTHING, Assignment, each, joined
from pykbroker.core.group.consumer.reconcile import Current, MemberState
from pykbroker.core.metadata.image import TopicsImage
from pykbroker.core.topic_partition import TopicIdPartition
from wire.error_codes import ErrorCode
from wire.messages.list_groups import ListedGroup
from wire.stored import consumer_group as stored
from wire.stored.framing import CoordinatorKey

StoredMember = stored.ConsumerGroupMemberMetadataValue
FIRST_EPOCH = 1
STABLE = "Stable"


class ConsumerGroup:
    """A consumer group.

    Three mappings have an entry for each member id: `members` its subscription and metadata, `target` its target
    assignment, `current` its current assignment. `owners` has the member that owns a partition, or that must still
    revoke it. `seen` are the topics as of the last heartbeat, to detect changes.
    """

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, StoredMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, Assignment] = {}
        self.current: dict[str, Current] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.regexes: dict[str, stored.ConsumerGroupRegularExpressionValue] = {}
        self.seen: TopicsImage | None = None

    def copy(self) -> ConsumerGroup:
        other = ConsumerGroup(self.id)
        other.epoch, other.assignment_epoch = self.epoch, self.assignment_epoch
        other.metadata_hash, other.seen = self.metadata_hash, self.seen
        for name in ("members", "static", "target", "current", "owners", "regexes"):
            setattr(other, name, getattr(self, name).copy())
        return other

    @property
    def state(self) -> str:
        """Return the state under the name that clients see."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        stable = all(
            (current := self.current.get(member_id)) is not None
            and current.state is MemberState.STABLE
            and current.epoch == self.assignment_epoch
            for member_id in self.members
        )
        return STABLE if stable else "Reconciling"

    def member_epoch(self, member_id: str) -> int | None:
        """Return the member's epoch, or None if the member is unknown."""
        if member_id not in self.members:
            return None
        return self.current.get(member_id, Current()).epoch

    def is_classic(self, member_id: str) -> bool:
        """Whether this member uses the classic protocol."""
        return self.members[member_id].classic_member_metadata is not None

    def supports_any_of(self, protocols: list[str]) -> bool:
        """Whether a client that uses the classic protocol with these protocol names can be a member."""
        supported = [
            {one.name for one in stored_member.classic_member_metadata.supported_protocols}
            for stored_member in self.members.values()
            if stored_member.classic_member_metadata is not None
        ]
        return any(all(name in known for known in supported) for name in protocols)

    def subscribes(self, topic: str) -> bool:
        return any(topic in member.subscribed_topic_names for member in self.members.values()) or any(
            topic in regex.topics for regex in self.regexes.values()
        )

    def put_member(self, member_id: str, stored_member: StoredMember | None) -> None:
        """Set the member's subscription and metadata. None removes the member."""
        before = self.members.get(member_id)
        if before is not None and before.instance_id and self.static.get(before.instance_id) == member_id:
            del self.static[before.instance_id]
        if stored_member is not None:
            self.members[member_id] = stored_member
            if stored_member.instance_id:
                self.static[stored_member.instance_id] = member_id
        else:
            self.members.pop(member_id, None)

    def put_current(self, member_id: str, current: Current | None) -> None:
        """Set the member's current assignment and update the owners. None removes the assignment."""
        before = self.current.pop(member_id, Current())
        for place in each(joined(before.assigned, before.revoking)):
            if self.owners.get(place) == member_id:
                del self.owners[place]
        if current is not None:
            self.current[member_id] = current
            for place in each(joined(current.assigned, current.revoking)):
                self.owners[place] = member_id

    def is_free(self, topic_id: bytes, partition: int) -> bool:
        """Whether no member owns the partition."""
        return (topic_id, partition) not in self.owners

    def target_of(self, member_id: str) -> Assignment:
        return self.target.get(member_id, NOTHING)

    # The interface `Group`

    @property
    def pending(self) -> frozenset[str]:
        """Return no member ids, since members join with their first heartbeat."""
        return frozenset()

    @property
    def delete_error(self) -> ErrorCode:
        """Return the reason why the group cannot be deleted, or NONE."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    @property
    def offset_delete_error(self) -> ErrorCode:
        """Return NONE, since subscriptions are always known."""
        return ErrorCode.NONE

    def listed(self) -> ListedGroup:
        return ListedGroup(self.id, "consumer", self.state, "consumer")

    def described(self) -> None:
        """Return None, since only ConsumerGroupDescribe describes the group."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiError if a member is not in its current epoch. Requests without a member always pass.

        Members that use the classic protocol send their epoch as the generation.
        """
        if member_id is None and member_epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.member_epoch(member_id or "") != member_epoch:
            is_classic = member.classic_member_metadata is not None
            raise ApiError(ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH)

    def retained_since_ms(self, commit_ms: int) -> int | None:
        """Return the time of the commit."""
        return commit_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group, its members, and topic metadata that brokers before 4.0 stored."""
        group_id, ids = self.id, self.members
        keys: list[CoordinatorKey] = [
            *(stored.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one) for one in ids),
            *(stored.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one) for one in ids),
            stored.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            *(stored.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one) for one in ids),
            *(
                stored.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=one)
                for one in self.regexes
            ),
            stored.ConsumerGroupPartitionMetadataKey(group_id=group_id),
            stored.ConsumerGroupMetadataKey(group_id=group_id),
        ]
        return [CoordinatorRecord(key, None) for key in keys]
