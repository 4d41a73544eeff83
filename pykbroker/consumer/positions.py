"""The positions of a consumer: committed offsets, resets and validation, looked up in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Protocol

import trio

from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.client.pending_response import R
from pykbroker.consumer.topics import ConsumerTopics
from pykbroker.core.consumer.errors import ConsumerError, LogTruncation, NoOffsetForPartition
from pykbroker.core.consumer.partition_state import FetchState
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.position_lookups import (
    LookupSettings,
    PositionResets,
    PositionValidation,
    ResetCall,
    ValidationCall,
)
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.client_world import ClientWorld
from wire.declare import Request

log = logging.getLogger("pykbroker.consumer")
CommittedOffsets = dict[TopicPartition, CommittedOffset | None]


class LoadsCommitted(Protocol):
    """A function that returns the committed offsets of partitions."""

    async def __call__(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """Return the offset of each partition, or None. Raise ApiError if the coordinator refuses."""


class PositionUpdates:
    """The look-ups that give each assigned partition a position.

    `load_committed` is None without a group. `failed` is called with an error for the user, and `changed` after each
    look-up.
    """

    def __init__(
        self,
        subscription: ConsumerSubscription,
        settings: LookupSettings,
        links: tuple[Nodes, ClusterMetadata, ConsumerTopics],
        world: ClientWorld,
        load_committed: LoadsCommitted | None,
        failed: Callable[[Exception], None],
        changed: Callable[[], None],
    ) -> None:
        self._subscription, self._settings, self._world = subscription, settings, world
        self._nodes, self._metadata, self._topics = links
        self._load_committed, self._failed, self._changed = load_committed, failed, changed
        self._resets = PositionResets(subscription, settings)
        self._validation = PositionValidation(subscription, settings)
        self._is_loading = False

    @property
    def is_complete(self) -> bool:
        """Whether all assigned partitions are fetched, so that no look-up is due or in flight."""
        return all(
            state is not None and state.state is FetchState.FETCHING
            for state in map(self._subscription.get, self._subscription.partitions)
        )

    def send_due(self, nursery: trio.Nursery) -> None:
        """Start the look-ups that are due."""
        now_ms, leader_of = self._now_ms(), self._topics.leader_of
        self._initialize(nursery)
        try:
            plan = self._resets.due(leader_of, now_ms, self._world.wall_ms())
        except NoOffsetForPartition as error:
            self._failed(error)
        else:
            if plan.is_metadata_stale:
                self._metadata.request_update()
            for call in plan.calls:
                nursery.start_soon(self._reset, call)
        for validation in self._validation.due(now_ms):
            nursery.start_soon(self._validate, validation)

    def _initialize(self, nursery: trio.Nursery) -> None:
        """Begin at committed offsets, or without a group where the reset strategy says."""
        lacking = [each for each in self._subscription.partitions if self._subscription[each].needs_position]
        if not lacking or self._is_loading:
            return
        if self._load_committed is not None:
            self._is_loading = True
            nursery.start_soon(self._load, self._load_committed, lacking)
            return
        self._set(dict.fromkeys(lacking))

    def _set(self, committed: CommittedOffsets) -> None:
        try:
            self._subscription.initialize(committed, self._topics.leader_of)
        except NoOffsetForPartition as error:
            self._failed(error)

    @trio.lowlevel.enable_ki_protection
    async def _load(self, load: LoadsCommitted, partitions: Collection[TopicPartition]) -> None:
        try:
            self._set(await load(partitions))
        except (AuthenticationError, ConsumerError, ApiError) as error:
            self._failed(error)
            await trio.sleep(self._settings.retry_backoff_ms / 1000)
        finally:
            self._is_loading = False
        self._changed()

    @trio.lowlevel.enable_ki_protection
    async def _reset(self, call: ResetCall) -> None:
        response = await self._ask(call.node, call.request)
        if response is None:
            is_stale = self._resets.failed(call, self._now_ms())
        else:
            try:
                is_stale = self._resets.received(call, response, self._topics.leader_of, self._now_ms())
            except ApiError as error:
                self._failed(error)
                is_stale = False
        self._done(is_stale=is_stale)

    @trio.lowlevel.enable_ki_protection
    async def _validate(self, call: ValidationCall) -> None:
        response = await self._ask(call.node, call.request)
        if response is None:
            is_stale = self._validation.failed(call, self._now_ms())
        else:
            try:
                is_stale = self._validation.received(call, response, self._now_ms())
            except (LogTruncation, ApiError) as error:
                self._failed(error)
                is_stale = False
        self._done(is_stale=is_stale)

    async def _ask(self, node: int, request: Request[R]) -> R | None:
        """Return the response, or None if there is none."""
        try:
            return await self._nodes.ask(node, request)
        except (OSError, Disconnected, UnsupportedVersion) as error:
            log.debug("node %s: %s has no response: %s", node, type(request).__name__, error)
            return None

    def _done(self, *, is_stale: bool) -> None:
        if is_stale:
            self._metadata.request_update()
        self._changed()

    def _now_ms(self) -> float:
        return self._world.ticks_ns() / 1e6
