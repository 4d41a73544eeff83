"""The shell of a consumer: its parts on trio, and what runs in the background."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable
from uuid import UUID

import trio

from pykbroker.client.coordinators import Coordinators
from pykbroker.client.defect import Defect
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.client.settings import metadata_settings, node_settings
from pykbroker.consumer.commits import OffsetCommits
from pykbroker.consumer.coordinator_link import CoordinatorLink
from pykbroker.consumer.fetcher import Fetcher
from pykbroker.consumer.interceptors import ConsumerInterceptors
from pykbroker.consumer.member import MemberTasks
from pykbroker.consumer.offset_lookups import OffsetLookups
from pykbroker.consumer.positions import CommittedOffsets, PositionUpdates
from pykbroker.consumer.settings import CONSUMER_PROTOCOL, ConsumerSettings
from pykbroker.consumer.topics import ConsumerTopics
from pykbroker.core.consumer.commits import CommitIdentity, consumed
from pykbroker.core.consumer.errors import ConsumerClosed, NoOffsetForPartition
from pykbroker.core.consumer.fetching import ConsumerFetches
from pykbroker.core.consumer.membership.classic import ClassicMembership
from pykbroker.core.consumer.membership.consumer import ConsumerMembership
from pykbroker.core.consumer.offset_reset import ResetStrategy
from pykbroker.core.consumer.position import CommittedOffset, FetchPosition
from pykbroker.core.consumer.records import ReadRecords
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import UnreadRecords
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.one_process import OneProcess
from wire.error_codes import ErrorCode
from wire.records.column_reader import read_columns
from wire.sentinels import NO_LEADER_EPOCH

IN_FLIGHT_MAX = 100
"""The requests in flight to a broker, as in Kafka's consumer."""
RETRY_MS_MIN = 10
"""The shortest time after which the shell tries again what it could not send."""

log = logging.getLogger("pykbroker.consumer")


class ConsumerShell:
    """The parts of one consumer, and what runs in the background. Everything runs in the trio thread."""

    def __init__(self, settings: ConsumerSettings, world: ClientWorld, reads: ReadRecords = read_columns) -> None:
        self.settings, self.world = settings, world
        uniform = world.rng.uniform
        self.subscription = ConsumerSubscription(settings.reset)
        self.unread = UnreadRecords(self.subscription)
        self.process = OneProcess(settings.client_id, self.unread.discard)
        self.interceptors = ConsumerInterceptors(settings.interceptors)
        self.nodes = Nodes(world.net, uniform, node_settings(settings, IN_FLIGHT_MAX))
        self.metadata = ClusterMetadata(self.nodes, uniform, metadata_settings(settings))
        self.topics = ConsumerTopics(
            self.metadata,
            self.nodes,
            self.subscription,
            self._failed,
            self.metadata_changed,
            excludes_internal=settings.exclude_internal_topics,
        )
        links = (self.nodes, self.metadata, self.topics)
        self.fetches = ConsumerFetches(self.subscription, self.unread, settings.fetching(), reads)
        self._defect = Defect(lambda: self._retry.set())
        self._fetcher = Fetcher(
            self.fetches, self.nodes, self.metadata, self.topics, arrived=self.changed, defect=self._defect
        )
        self.lookups = OffsetLookups(links, settings.lookups(), uniform, settings.retry_backoff_max_ms)
        self.commits: OffsetCommits | None = None
        self.member: MemberTasks | None = None
        if settings.group_id is not None:
            self._join_group(settings.group_id)
        self._positions = PositionUpdates(
            self.subscription,
            settings.lookups(),
            links,
            world,
            self._load_committed if settings.group_id is not None else None,
            self._failed,
            self.changed,
        )
        self._nursery: trio.Nursery | None = None
        self._failure: Exception | None = None
        self.waiting = trio.lowlevel.ParkingLot()
        """The calls of the user that wait for something to change."""
        self._retry = trio.Event()
        self._is_advancing = self._is_due = self.is_closed = False
        self.nodes.call_when_ready(lambda _: self.advance())
        self.nodes.call_when_lost(lambda _: self.advance())
        self.nodes.call_when_refused(self._failed)

    def _join_group(self, group_id: str) -> None:
        """Make the parts that only a consumer in a group has."""
        settings, uniform = self.settings, self.world.rng.uniform
        coordinators = Coordinators(
            self.nodes, uniform, settings.retry_backoff_ms, settings.retry_backoff_max_ms, separate_connections=True
        )
        link = CoordinatorLink(group_id, self.nodes, coordinators)
        membership: ClassicMembership | ConsumerMembership
        if settings.group_protocol == CONSUMER_PROTOCOL:
            # The text of Kafka's Uuid is Base64 without padding.
            member_id = urlsafe_b64encode(UUID(int=self.world.rng.getrandbits(128), version=4).bytes).decode()[:22]
            membership = ConsumerMembership(
                settings.membership(), self.subscription, member_id, self.topics.name_of, uniform, self.now_ms()
            )
        else:
            membership = ClassicMembership(
                settings.membership(), self.subscription, settings.assignors(), uniform, self.now_ms()
            )
        member = MemberTasks(
            membership, self.subscription, link, (self.metadata, self.topics), self.now_ms, self._failed, self.changed
        )
        self.member = member
        self.commits = OffsetCommits(
            link, settings, self.identity, member.commit_failed, self.topics.id_of, uniform, self.interceptors.on_commit
        )

    def now_ms(self) -> float:
        """Return the ms of a monotonic clock."""
        return self.world.ticks_ns() / 1e6

    # ---- the group

    def identity(self) -> CommitIdentity:
        """Return the identity for commits. Raise the errors of the membership, or ApiError without a group."""
        if self.settings.group_id is None:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group: set group_id")
        if self.member is None or not self.subscription.is_from_group:
            return CommitIdentity(self.settings.group_id)
        return self.member.identity()

    def offset_commits(self) -> OffsetCommits:
        """Return the commits. Raise ApiError without a group."""
        if self.commits is None:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "this consumer has no group to commit to: set group_id")
        return self.commits

    async def _load_committed(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        return await self.offset_commits().committed(partitions)

    def consumed(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the offsets that a commit without offsets commits: those of the records that the user has not read."""
        return self.unread.offsets(consumed(self.subscription))

    # ---- the end

    def close_links(self) -> None:
        """Close the fetch sessions. The caller then cancels `run`."""
        self.is_closed = True
        self.unread.discard()
        self._fetcher.close()
        self.interceptors.close()
        self.waiting.unpark_all()

    def check_open(self) -> None:
        """Raise ConsumerClosed after the end, and RuntimeError in a forked process."""
        self.process.check()
        if self.is_closed:
            raise ConsumerClosed("the consumer is closed")

    # ---- the background

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch, look up positions and send heartbeats until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.world.net.run)
                await nursery.start(self.nodes.run)
                nursery.start_soon(self.metadata.run)
                if self.member is not None:
                    await nursery.start(self.member.run)
                self._nursery = nursery
                task_status.started()
                self.changed()
                await self._run_retries()
        finally:
            self._nursery, self.is_closed = None, True
            self.unread.discard()
            self.waiting.unpark_all()

    async def _run_retries(self) -> None:
        """Try again after a backoff what could not be sent."""
        while True:
            await self._retry.wait()
            self._defect.check()
            self._retry = trio.Event()
            await trio.sleep(max(RETRY_MS_MIN, self.settings.retry_backoff_ms) / 1000)
            self.advance()

    def advance(self) -> None:
        """Send all requests that are due now. Call this after every event."""
        self._is_due = True
        if self._is_advancing or self._nursery is None or self.is_closed or not self.nodes.is_running:
            return
        try:
            self._is_advancing = True
            with self._defect:
                while self._is_due:
                    self._is_due = False
                    self._send_due(self._nursery)
        finally:
            self._is_advancing = False

    def _send_due(self, nursery: trio.Nursery) -> None:
        # A listener, or a user who handles an error, may seek: nothing is looked up before that.
        if self._failure is None and not (self.member is not None and self.member.awaits_user):
            self._positions.send_due(nursery)
        is_sent = self._fetcher.send_due(self.now_ms())
        if not is_sent or not self._positions.is_complete:
            self._retry.set()

    def changed(self) -> None:
        """Send what is due, and let waiting calls look again."""
        self.advance()
        self.waiting.unpark_all()

    @property
    def advice(self) -> str:
        """Return the end of an error's text, for a call that no broker has answered in time."""
        return self.metadata.connection_failure or "call it again"

    def metadata_changed(self) -> None:
        """Compare the assignment with newer metadata, or with a new subscription."""
        subscription = self.subscription
        if self.member is not None:
            self.member.note_metadata()
        elif subscription.is_from_group:
            self._assign_all()
        self.changed()

    def _assign_all(self) -> None:
        """Assign all partitions of the subscribed topics to a consumer without a group."""
        subscription, topics = self.subscription, self.topics.cluster.topics
        found = {
            TopicPartition(name, each.index)
            for name in subscription.topics
            if name in topics
            for each in topics[name].partitions
        }
        kept = {each for each in subscription.partitions if each.topic in subscription.topics}
        if found | kept != set(subscription.partitions):
            subscription.assign_from_group(sorted(found | kept))

    def _failed(self, error: Exception) -> None:
        """Let the user's next call raise an error, unless it raises an earlier one."""
        if self._failure is None:
            self._failure = error
        self.waiting.unpark_all()

    def raise_failure(self) -> None:
        """Raise the error that the user has to handle, if there is one."""
        failure, self._failure = self._failure, None
        if failure is None:
            return
        if isinstance(failure, NoOffsetForPartition):
            states = map(self.subscription.get, failure.partitions)
            if all(state is None or state.position is not None for state in states):
                return  # the user has sought meanwhile
        raise failure

    # ---- the calls of the user

    async def wait_for_news(self) -> None:
        """Wait until something changes, or return if there is an error for the user, which may be of this very call."""
        if self._failure is None:
            await self.waiting.park()

    def start(self, task: Callable[..., object], *args: object) -> None:
        assert self._nursery is not None, "the consumer runs while its user calls it"
        self._nursery.start_soon(task, *args)  # type: ignore[arg-type]

    async def known_position(self, partition: TopicPartition) -> FetchPosition:
        """Return a position, once it is known. The caller sets the deadline."""
        while True:
            self.check_open()
            self.raise_failure()
            position = self.subscription[partition].position
            if position is not None:
                return position
            self.advance()
            await self.wait_for_news()

    def reset(self, partitions: Collection[TopicPartition], strategy: ResetStrategy) -> None:
        """Move to where a strategy says. The offset is looked up in the background."""
        subscription = self.subscription
        # For the second call, see `ConsumerSubscription.changed`.
        subscription.changed()
        for partition in partitions:
            subscription[partition].move_by(strategy)
        subscription.changed()
        self.advance()

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Stop or continue the return of records of partitions, without a rebalance. Unread ones are returned later."""
        for partition in partitions:
            unread = self.unread.first(partition)
            if is_paused and unread is not None:
                self.seek(partition, unread)
            self.subscription[partition].is_paused = is_paused
        self.advance()

    def rewind(self) -> None:
        """Move back to the unread records of an iteration, so that the next poll returns them as columns."""
        for partition in self.unread.iterated():
            first = self.unread.first(partition)
            if first is not None:
                self.seek(partition, first)

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Move to an offset. The position is validated if the leader epoch of the record before it is given."""
        position = FetchPosition(offset, leader_epoch, self.topics.leader_of(partition))
        subscription = self.subscription
        # For the second call, see `ConsumerSubscription.changed`.
        subscription.changed()
        subscription[partition].move(position)
        subscription.changed()
        self.advance()
