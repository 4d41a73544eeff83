"""The subscription of a consumer: topics, a pattern or assigned partitions, and the state of each partition.

1. Topics, a client-side pattern, a server-side pattern (KIP-848) and assigned partitions exclude each other, until
   `unsubscribe`.
2. The partitions of a subscription come from the group. A partition keeps its state while it stays assigned.
3. The partitions are in the order in which they are fetched. One that returned records or an error moves to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum

from pykbroker.core.consumer.errors import NoOffsetForPartition, OffsetsOutOfRange, SubscriptionConflict
from pykbroker.core.consumer.offset_reset import NO_RESET, ResetStrategy
from pykbroker.core.consumer.partition_state import AssignedPartition, FetchState
from pykbroker.core.consumer.position import CommittedOffset, FetchPosition, PartitionLeaderOf
from pykbroker.core.topic_partition import TopicPartition
from wire.declare import NIL

Matches = Callable[[str], bool]
"""A client-side pattern: whether the name of a topic matches."""


class SubscriptionKind(Enum):
    """The ways in which a consumer gets its partitions."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "pattern"
    SERVER_PATTERN = "server-side pattern"
    ASSIGNED = "partitions"


class ConsumerSubscription:
    """The subscription of a consumer and its assigned partitions."""

    def __init__(self, reset: ResetStrategy) -> None:
        self.reset = reset
        self.kind = SubscriptionKind.NONE
        self.topics: frozenset[str] = frozenset()
        """The subscribed topics, those that a client-side pattern matches, or those of assigned partitions."""
        self.group_topics: frozenset[str] = frozenset()
        """The topics of all members, which the leader of a classic group needs in its metadata."""
        self.server_pattern: str | None = None
        self._matches: Matches | None = None
        self._partitions: dict[TopicPartition, AssignedPartition] = {}
        self.changed: Callable[[], None] = lambda: None
        """A function to call around each change of the topics or the partitions, and each move by the user.

        The call before counts if an interrupt prevents the other, which counts for a user's call in another thread.
        """

    # ---- what the user asks for

    def subscribe(self, topics: Iterable[str]) -> bool:
        """Subscribe to topics.

        Return whether they differ from the earlier ones. Raise TypeError for a name of no text.
        """
        names = checked_names(topics)
        self._become(SubscriptionKind.TOPICS)
        return self._set_topics(names)

    def subscribe_pattern(self, matches: Matches) -> None:
        """Subscribe to the topics that match, as `update_matched` finds them in metadata."""
        self._become(SubscriptionKind.PATTERN)
        self._matches = matches

    def subscribe_server_pattern(self, pattern: str) -> None:
        """Subscribe to the topics that match a pattern of RE2/J, which the group coordinator evaluates."""
        self._become(SubscriptionKind.SERVER_PATTERN)
        self.server_pattern = pattern

    def update_matched(self, names: Iterable[str]) -> bool:
        """Subscribe to those of all topics that match the client-side pattern. Return whether they changed."""
        matches = self._matches
        return matches is not None and self._set_topics(name for name in names if matches(name))

    def assign(self, partitions: Collection[TopicPartition]) -> bool:
        """Assign partitions without a group. Return whether the set of their topics changed.

        Raise TypeError for a topic that is no text.
        """
        names = checked_names(partition.topic for partition in partitions)
        self._become(SubscriptionKind.ASSIGNED)
        if self._partitions.keys() == set(partitions):
            return False
        self._set_partitions(partitions)
        return self._set_topics(names)

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.kind = SubscriptionKind.NONE
        self.topics = self.group_topics = frozenset()
        self.server_pattern = self._matches = None
        self._set_partitions(())

    # ---- what the group assigns

    @property
    def is_from_group(self) -> bool:
        """Whether the group assigns the partitions."""
        return self.kind not in (SubscriptionKind.NONE, SubscriptionKind.ASSIGNED)

    @property
    def metadata_topics(self) -> frozenset[str]:
        """Return the topics whose metadata is needed."""
        return self.topics | self.group_topics

    def accepts(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all partitions belong to the subscription, which may have changed since the member joined."""
        if self._matches is not None:
            return all(map(self._matches, {partition.topic for partition in partitions}))
        return all(partition.topic in self.topics for partition in partitions)

    def assign_from_group(self, partitions: Iterable[TopicPartition], awaiting: Iterable[TopicPartition] = ()) -> None:
        """Take the group's assignment. Partitions in `awaiting` are not fetched until `enable`."""
        assert self.is_from_group, "only a subscription has an assignment of the group"
        self._set_partitions(partitions)
        for partition in awaiting:
            self._partitions[partition].awaits_listener = True

    def enable(self, partitions: Iterable[TopicPartition]) -> None:
        """Let new partitions be fetched, since the rebalance listener has been called."""
        for partition in partitions:
            if state := self._partitions.get(partition):
                state.awaits_listener = False

    def mark_revoking(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching exactly these partitions, which the group takes away once the rebalance listener was called.

        A revocation that was marked before and is not among them was withdrawn.
        """
        revoking = frozenset(partitions)
        self.changed()
        for partition, state in self._partitions.items():
            state.is_revoking = partition in revoking
        self.changed()

    # ---- partitions

    @property
    def partitions(self) -> list[TopicPartition]:
        """Return the assigned partitions, in the order in which they are fetched."""
        return list(self._partitions)

    def get(self, partition: TopicPartition) -> AssignedPartition | None:
        """Return the state of a partition, or None if it is not assigned."""
        return self._partitions.get(partition)

    def __getitem__(self, partition: TopicPartition) -> AssignedPartition:
        state = self._partitions.get(partition)
        if state is None:
            raise SubscriptionConflict(f"No current assignment for partition {partition}")
        return state

    def is_fetchable(self, partition: TopicPartition) -> bool:
        """Whether records of the partition may be fetched and returned."""
        state = self._partitions.get(partition)
        return state is not None and is_subscribed(self, partition.topic) and state.is_fetchable

    def waiting(self, state: FetchState, now_ms: float) -> Iterator[tuple[TopicPartition, AssignedPartition]]:
        """Yield the partitions in this state whose backoff is over."""
        for partition, each in self._partitions.items():
            if each.may_ask(state, now_ms):
                yield partition, each

    def move_to_end(self, partition: TopicPartition) -> None:
        """Fetch the partition last, so that all partitions get their turn."""
        if partition in self._partitions:
            self._partitions[partition] = self._partitions.pop(partition)

    def leaders_changed(self, leader_of: PartitionLeaderOf, validates: Callable[[int], bool]) -> None:
        """Compare every position with newer metadata. `validates` says whether a node can validate positions."""
        for partition, state in self._partitions.items():
            leader = leader_of(partition)
            state.leader_changed(leader, validates=leader.node is None or validates(leader.node))

    def failed(self, partitions: Iterable[TopicPartition], retry_at_ms: float) -> None:
        """Note that a request for offsets of these partitions failed, and may be repeated at `retry_at_ms`."""
        for partition in partitions:
            if state := self._partitions.get(partition):
                state.retry_at_ms = retry_at_ms

    # ---- positions

    def initialize(self, committed: dict[TopicPartition, CommittedOffset | None], leader_of: PartitionLeaderOf) -> None:
        """Set the first positions by committed offsets, or by the reset strategy where no offset is committed.

        Raise NoOffsetForPartition for a partition without a committed offset if the strategy is `none`.
        """
        homeless = []
        for partition, offset in committed.items():
            state = self._partitions.get(partition)
            if state is None or not state.needs_position:
                continue
            if offset is not None:
                state.seek_unvalidated(FetchPosition(offset.offset, offset.epoch, leader_of(partition)))
            elif self.reset == NO_RESET:
                homeless.append(partition)
            else:
                state.request_reset(self.reset)
        if homeless:
            raise NoOffsetForPartition(homeless)

    def _become(self, kind: SubscriptionKind) -> None:
        if self.kind not in (SubscriptionKind.NONE, kind):
            raise SubscriptionConflict("Subscription to topics, partitions and pattern are mutually exclusive")
        self.kind = kind

    def _set_topics(self, topics: Iterable[str]) -> bool:
        self.changed()
        before, self.topics = self.topics, frozenset(topics)
        self.changed()
        return before != self.topics

    def _set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        self.changed()
        old = self._partitions
        self._partitions = {partition: old.get(partition) or AssignedPartition() for partition in partitions}
        self.changed()


def checked_names(topics: Iterable[str]) -> list[str]:
    """Return names of topics. Raise TypeError for one that is no text, which no request could carry."""
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the topic {name!r} is of type {type(name).__name__}: pass its name as str")
    return names


def paused(subscription: ConsumerSubscription) -> set[TopicPartition]:
    """Return the paused partitions. Any thread may ask, also while the assignment changes."""
    states = [(partition, subscription.get(partition)) for partition in subscription.partitions]
    return {partition for partition, state in states if state is not None and state.is_paused}


def is_subscribed(subscription: ConsumerSubscription, topic: str) -> bool:
    """Whether partitions of a topic may be read. If not, the group takes them away only with the next rebalance."""
    return subscription.kind is not SubscriptionKind.TOPICS or topic in subscription.topics


def reset_recreated(
    subscription: ConsumerSubscription, old_id_of: Callable[[str], bytes], id_of: Callable[[str], bytes]
) -> None:
    """Reset the positions in topics that were deleted and created again, as their ids in old and new metadata say.

    Raise OffsetsOutOfRange if there is no reset strategy. The positions are then lost until the user seeks.
    """
    recreated: dict[TopicPartition, int] = {}
    for partition in subscription.partitions:
        state, topic_id = subscription[partition], id_of(partition.topic)
        if topic_id == NIL:
            continue
        known = old_id_of(partition.topic) if state.topic_id == NIL else state.topic_id
        if state.position is not None and known not in (NIL, topic_id):
            recreated[partition] = state.position.offset
        state.topic_id = topic_id
    if not recreated:
        return
    subscription.changed()
    for partition in recreated:
        subscription[partition].move_by(subscription.reset)
    subscription.changed()
    if subscription.reset == NO_RESET:
        names = ", ".join(f"{partition} at offset {offset}" for partition, offset in sorted(recreated.items()))
        message = f"Topics were deleted and created again: {names}; seek to an offset, or set auto.offset.reset"
        raise OffsetsOutOfRange(recreated, message)
