"""The commits of a consumer: sent to the coordinator one after the other, and repeated while an error is retriable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.errors import AuthenticationError, Disconnected
from pykbroker.consumer.coordinator_link import CoordinatorLink
from pykbroker.consumer.settings import ConsumerSettings
from pykbroker.core.backoff import Uniform
from pykbroker.core.consumer.commits import (
    AutoCommit,
    CommitIdentity,
    CommitResult,
    commit_request,
    commit_result,
    fetch_offsets_request,
    offsets_fetched,
)
from pykbroker.core.consumer.errors import ConsumerError
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode

log = logging.getLogger("pykbroker.consumer")
Offsets = Mapping[TopicPartition, CommittedOffset]
OnCommit = Callable[[Offsets], None]
"""A function that is called with the offsets of each successful commit."""


class OffsetCommits:
    """The commits of one consumer and its look-ups of committed offsets.

    `identity` returns the member that commits, or raises the error of a member that may not. `failed_as_member` is
    called with a result that says something about the membership.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        settings: ConsumerSettings,
        identity: Callable[[], CommitIdentity],
        failed_as_member: Callable[[CommitResult], None],
        id_of: Callable[[str], bytes],
        uniform: Uniform,
        committed: OnCommit,
    ) -> None:
        self._link, self._settings, self._identity = link, settings, identity
        self._failed_as_member, self._id_of, self._uniform = failed_as_member, id_of, uniform
        self._committed, self._turn = committed, trio.Lock()
        self._automatic: AutoCommit | None = None

    async def commit(self, offsets: Offsets) -> None:
        """Commit offsets, and repeat it while an error is retriable. The caller sets the deadline.

        Raise CommitFailed if the member was removed from its group, and ApiError.
        """
        backoff = self._backoff()
        async with self._turn:
            while (result := await self._attempt(offsets)).error is not None:
                if not result.is_retriable:
                    raise result.error
                await trio.sleep(backoff.failed())

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of each partition, or None. The caller sets the deadline. Raise ApiError."""
        backoff = self._backoff()
        while True:
            found, result = await self._look_up(partitions)
            if result.error is None:
                return {partition: found.get(partition) for partition in partitions}
            if not result.is_retriable:
                raise result.error
            await trio.sleep(backoff.failed())

    # ---- automatic commits

    def is_due(self, now_ms: float) -> bool:
        """Whether `auto.commit.interval.ms` has passed. The caller then calls `commit_automatically`."""
        if not self._settings.commits:
            return False
        if self._automatic is None:
            self._automatic = AutoCommit(self._settings.auto_commit_interval_ms, now_ms)
        return self._automatic.take(now_ms)

    @trio.lowlevel.enable_ki_protection
    async def commit_automatically(self, offsets: Offsets, now_ms: Callable[[], float]) -> None:
        """Commit offsets once, and log a failure. The next interval tries again."""
        result = CommitResult()
        try:
            async with self._turn:
                result = await self._attempt(offsets)
        except (AuthenticationError, ConsumerError, ApiError) as error:
            result = CommitResult(error)
        if result.error is not None:
            log.warning("group %s: an automatic commit failed: %s", self._link.group_id, result.error)
        assert self._automatic is not None, "an automatic commit was due"
        self._automatic.done(result, now_ms(), self._settings.retry_backoff_ms)

    async def commit_before_rebalance(self, offsets: Offsets) -> None:
        """Commit offsets before partitions are given away, for at most `max.poll.interval.ms`. Log a failure."""
        try:
            with trio.move_on_after(self._settings.max_poll_interval_ms / 1000):
                await self.commit(offsets)
                return
            log.warning("group %s: the commit before a rebalance timed out", self._link.group_id)
        except (AuthenticationError, ConsumerError, ApiError) as error:
            log.warning("group %s: the commit before a rebalance failed: %s", self._link.group_id, error)

    # ---- requests

    async def _attempt(self, offsets: Offsets) -> CommitResult:
        if not offsets:
            return CommitResult()
        request, version_max = commit_request(self._identity(), offsets, self._id_of)
        try:
            response = await self._link.ask(request, version_max)
        except AuthenticationError as error:
            return CommitResult(error)
        except (OSError, Disconnected) as error:
            return disconnected(error)
        result = commit_result(request, response)
        self._note(result)
        if result.error is None:
            self._committed(offsets)
        return result

    async def _look_up(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[Mapping[TopicPartition, CommittedOffset | None], CommitResult]:
        request, version_max = fetch_offsets_request(self._reader(), partitions, self._id_of)
        try:
            response = await self._link.ask(request, version_max)
        except AuthenticationError as error:
            return {}, CommitResult(error)
        except (OSError, Disconnected) as error:
            return {}, disconnected(error)
        found = offsets_fetched(request, response)
        self._note(found.result)
        return found.offsets, found.result

    def _reader(self) -> CommitIdentity:
        """Return the identity for a look-up. Only a member of the consumer protocol has to prove itself."""
        if self._settings.group_protocol == "consumer":
            try:
                return self._identity()
            except (ConsumerError, ApiError):
                log.debug("group %s: offsets are looked up without a membership", self._link.group_id)
        return CommitIdentity(self._link.group_id)

    def _note(self, result: CommitResult) -> None:
        if result.drops_coordinator:
            self._link.forget()
        if result.is_removed or result.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._failed_as_member(result)

    def _backoff(self) -> Backoff:
        settings = self._settings
        return Backoff(self._uniform, settings.retry_backoff_ms, settings.retry_backoff_max_ms)


def disconnected(error: Exception) -> CommitResult:
    """Return the result of a request whose connection failed."""
    return CommitResult(ApiError(ErrorCode.NETWORK_EXCEPTION, str(error)), ErrorCode.NETWORK_EXCEPTION, True)
