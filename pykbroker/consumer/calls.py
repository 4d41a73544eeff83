"""The calls of a consumer that return neither records nor calls of the listener. The faces share them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from trio.lowlevel import enable_ki_protection

from pykbroker.consumer.lookup_calls import LookupCalls
from pykbroker.consumer.settings import CONSUMER_PROTOCOL
from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.consumer.offset_reset import EARLIEST, LATEST
from pykbroker.core.consumer.position import CommittedOffset, offsets_to_commit
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.sentinels import NO_LEADER_EPOCH

log = logging.getLogger("pykbroker.consumer")


class ConsumerCalls(LookupCalls):
    """The subscription, the positions, the commits and the look-ups of one consumer."""

    def __init__(self, shell: ConsumerShell) -> None:
        super().__init__(shell)
        self.listener: Any = None

    # ---- the subscription

    @enable_ki_protection
    def subscribe(self, topics: Iterable[str], listener: Any = None) -> None:
        """Subscribe to topics instead of those before. The group assigns partitions during the next polls.

        `listener` is a RebalanceListener. Raise SubscriptionConflict after `assign` or a pattern, until `unsubscribe`.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics must be a list of names, not the text {topics!r}")
        shell = self._shell
        shell.check_open()
        shell.subscription.subscribe(topics)
        self._subscribed(listener)

    def subscribe_pattern(self, pattern: str | re.Pattern[str], listener: Any = None) -> None:
        """Subscribe to all topics whose whole name matches a regular expression, also those that are created later."""
        fullmatch = re.compile(pattern).fullmatch
        self.subscribe_matching(lambda name: fullmatch(name) is not None, listener)

    @enable_ki_protection
    def subscribe_matching(self, matches: Callable[[str], bool], listener: Any = None) -> None:
        """Subscribe to all topics for whose name a function returns true."""
        self._shell.check_open()
        self._shell.topics.subscribe_pattern(matches)
        self._subscribed(listener)

    @enable_ki_protection
    def subscribe_server_pattern(self, pattern: str, listener: Any = None) -> None:
        """Subscribe with a regular expression of RE2/J, which the coordinator evaluates (KIP-848)."""
        self._shell.check_open()
        if self._settings.group_protocol != CONSUMER_PROTOCOL or self._settings.group_id is None:
            text = "a pattern for the coordinator needs group_protocol='consumer'"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        self._shell.subscription.subscribe_server_pattern(pattern)
        self._subscribed(listener)

    def _subscribed(self, listener: Any) -> None:
        self.listener = listener
        self._shell.topics.follow()
        self._shell.metadata_changed()

    @enable_ki_protection
    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read exactly these partitions, without the group's assignment. Raise SubscriptionConflict if subscribed."""
        shell = self._shell
        shell.check_open()
        shell.subscription.assign(partitions)
        shell.topics.follow()
        shell.advance()

    @property
    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._shell.subscription.topics

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._shell.subscription.partitions)

    # ---- positions

    @enable_ki_protection
    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Continue at an offset. With the leader epoch of the record before it, a truncated log is noticed (KIP-320).

        Raise SubscriptionConflict for a partition that is not assigned.
        """
        if offset < 0:
            raise ValueError(f"{partition}: the offset {offset} is negative")
        self._shell.seek(partition, offset, leader_epoch)

    @enable_ki_protection
    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue at the start of the log, which is looked up later. By default, all assigned partitions move."""
        self._shell.reset(partitions or self._shell.subscription.partitions, EARLIEST)

    @enable_ki_protection
    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue at the end of the log, which is looked up later. By default, all assigned partitions move."""
        self._shell.reset(partitions or self._shell.subscription.partitions, LATEST)

    @enable_ki_protection
    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record. Raise ConsumerTimeout if it is unknown for `default_api_timeout_ms`."""
        unread = self._shell.unread.first(partition)
        return (await self._limited(self._shell.known_position, partition)).offset if unread is None else unread

    @enable_ki_protection
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        self._shell.pause(partitions, is_paused=True)

    @enable_ki_protection
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self._shell.pause(partitions, is_paused=False)

    # ---- the group

    @enable_ki_protection
    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset | int] | None = None) -> None:
        """Commit offsets, by default the positions behind the records that were returned.

        Raise CommitFailed if the group has removed this consumer, ApiError, or ConsumerTimeout after
        `default_api_timeout_ms`.
        """
        await self._limited(self._commit, None if offsets is None else offsets_to_commit(offsets))

    async def _commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        found = self._shell.consumed() if offsets is None else offsets
        await self._shell.offset_commits().commit(found)

    async def commit_last(self) -> None:
        """Commit before the end, if `enable_auto_commit` is true. Log a failure."""
        if self._settings.commits:
            try:
                await self._commit()
            except (ConsumerError, ApiError) as error:
                log.warning("group %s: the last commit failed: %s", self._settings.group_id, error)

    @enable_ki_protection
    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offsets of the group, None where there is none."""
        return await self._limited(self._shell.offset_commits().committed, partitions)

    def group_member(self) -> CommitIdentity:
        """Return this consumer for `Producer.send_offsets_to_transaction`, which fences earlier members (KIP-447)."""
        return self._shell.identity()
