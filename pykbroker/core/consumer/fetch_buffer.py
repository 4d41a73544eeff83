"""The fetched records that no poll has taken yet, and the handling of errors of single partitions.

1. Records are taken only from the position on. A response to an older position, or of an earlier era, is dropped.
2. An error is raised only if no records precede it in the same poll; otherwise the next poll raises it.
3. Records of a paused partition, and of those that a poll leaves out, wait in the buffer.
4. A batch that cannot be read is fetched once more before its error is raised, and after a backoff when it was.
5. After another error, the same broker is asked again after a backoff: it may answer at once until metadata is newer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from pykbroker.core.consumer.errors import ConsumerError, OffsetsOutOfRange, TopicsUnauthorized, UnreadableRecords
from pykbroker.core.consumer.fetched import BYTES_ENOUGH, CompletedFetch
from pykbroker.core.consumer.offset_reset import NO_RESET
from pykbroker.core.consumer.partition_state import AssignedPartition, FetchState
from pykbroker.core.consumer.position import FetchPosition
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.consumer.unread import UnreadPart, UnreadRecords
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.fetch import PartitionData

_STALE_METADATA = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
_IGNORED = {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR}
"""The errors after which the partition is simply fetched again, after a backoff."""


class FetchBuffer:
    """The completed fetches of a consumer, in the order of their arrival."""

    def __init__(
        self, subscription: ConsumerSubscription, unread: UnreadRecords, replica_ms_max: float, backoff_ms: float
    ) -> None:
        self._subscription, self._unread = subscription, unread
        self._replica_ms_max, self._backoff_ms = replica_ms_max, backoff_ms
        self._waiting: deque[CompletedFetch] = deque()
        self._current: CompletedFetch | None = None
        self._is_metadata_stale = False

    @property
    def partitions(self) -> set[TopicPartition]:
        """Return the partitions with buffered responses."""
        found = {each.partition for each in self._waiting}
        if self._current is not None and not self._current.is_drained:
            found.add(self._current.partition)
        return found

    def add(self, completed: CompletedFetch) -> None:
        """Append the response for a partition."""
        self._waiting.append(completed)

    def note_stale(self) -> None:
        """Have metadata refreshed."""
        self._is_metadata_stale = True

    def take_stale(self) -> bool:
        """Whether metadata has to be refreshed since the last call, because of an error of a partition."""
        found, self._is_metadata_stale = self._is_metadata_stale, False
        return found

    def collect(
        self, records_max: int, now_ms: float, *, cuts_batch: bool = True, among: Collection[TopicPartition] = ()
    ) -> bool:
        """Move up to `records_max` records to the unread ones, of all partitions or `among` some.

        If `cuts_batch` is false, the last batch is moved whole, which may be more records. As few as one batch is moved
        if it has BYTES_ENOUGH bytes: a poll bounds memory by bytes as well as by records. Return whether a position
        moved, which control batches alone may also cause.
        """
        left: list[CompletedFetch] = []
        has_parts = has_progress = False
        bytes_enough = BYTES_ENOUGH
        try:
            while records_max > 0 and bytes_enough > 0:
                current = self._next(now_ms, may_drop=not has_parts)
                if current is None:
                    break
                state = self._subscription.get(current.partition)
                is_left_out = state is not None and (state.is_paused or (among and current.partition not in among))
                # A response that does not fit any more is dropped by `_take`, whether or not its partition is left
                # out.
                if state is not None and is_left_out and current.fits(state):
                    left.append(current)
                    self._current = None
                    continue
                before = state.position if state is not None else None
                for part in self._take(current, records_max, bytes_enough, now_ms, cuts_batch=cuts_batch):
                    has_parts = has_progress = True
                    records_max -= len(part)
                    bytes_enough -= part.columns.content_bytes
                has_progress = has_progress or (state is not None and state.position != before)
        except (ConsumerError, ApiError):
            if not has_parts:
                raise
        finally:
            self._waiting.extend(left)
        return has_progress

    def _next(self, now_ms: float, *, may_drop: bool) -> CompletedFetch | None:
        """Return the response to take records from, or None if there is none.

        Raise the error of a response. If `may_drop` is true, a response without records is then dropped.
        """
        while self._current is None or self._current.is_drained:
            if not self._waiting:
                return None
            completed = self._waiting[0]
            is_usable = completed.is_checked
            if not is_usable:
                try:
                    is_usable = self._check(completed, now_ms)
                except (ConsumerError, ApiError):
                    # Every later poll would raise the same error. If records precede it, the next poll raises it: see
                    # 2.
                    if may_drop and (completed.data.error_code or not completed.records_bytes):
                        self._waiting.popleft()
                    raise
            self._waiting.popleft()
            self._current = completed if is_usable else None
        return self._current

    def _take(
        self, completed: CompletedFetch, records_max: int, bytes_enough: int, now_ms: float, *, cuts_batch: bool
    ) -> Iterator[FetchedColumns]:
        """Yield records that are next in line, once they are among the unread ones. Drop other records."""
        state = self._subscription.get(completed.partition)
        is_fetchable = self._subscription.is_fetchable(completed.partition)
        if state is None or not is_fetchable or not completed.fits(state):
            completed.drain()
        else:
            assert state.position is not None, "a response that fits has the offset of a position"
            before, era = state.position, state.era
            try:
                for part in completed.take(records_max, cuts_batch=cuts_batch, bytes_enough=bytes_enough):
                    after = FetchPosition(completed.next_offset, completed.last_epoch, before.leader)
                    self._unread.add(UnreadPart(part, state, before, after, era))
                    before = after
                    yield part
            except UnreadableRecords:
                _pass_over_the_rest(completed, state)
                if self._is_damaged_again(completed, state, now_ms):
                    raise
            # An interrupt skips this: the response then does not fit, and its rest is fetched again.
            _pass_over_the_rest(completed, state)
        if completed.is_drained and completed.bytes_read:
            self._subscription.move_to_end(completed.partition)

    def _check(self, completed: CompletedFetch, now_ms: float) -> bool:
        """Whether the records of a response are used. Handle its error code."""
        partition, data = completed.partition, completed.data
        state = self._subscription.get(partition)
        if state is None or state.state is not FetchState.FETCHING or not completed.is_of_era(state):
            return False
        if data.error_code:
            self._subscription.move_to_end(partition)
            try:
                self._handle_error(completed, state, data.error_code, now_ms)
            except (ConsumerError, ApiError):
                self._delay(state, now_ms)
                raise
            return False
        if not completed.fits(state):
            return False
        _update_offsets(state, data)
        if data.preferred_read_replica >= 0:
            state.prefer_replica(data.preferred_read_replica, now_ms + self._replica_ms_max)
        completed.is_checked = True
        return True

    def _is_damaged_again(self, completed: CompletedFetch, state: AssignedPartition, now_ms: float) -> bool:
        """Drop a response that cannot be read.

        Return whether the user must know, since an earlier one could not be read either.
        """
        completed.drain()
        if state.damaged_offset != completed.next_offset:
            state.damaged_offset = completed.next_offset
            return False
        self._delay(state, now_ms)
        return True

    def _delay(self, state: AssignedPartition, now_ms: float) -> None:
        state.fetch_at_ms = now_ms + self._backoff_ms

    def _handle_error(self, completed: CompletedFetch, state: AssignedPartition, code: int, now_ms: float) -> None:
        """Handle the error of a partition. Raise it if the user has to act."""
        partition, offset = completed.partition, completed.next_offset
        if code in _STALE_METADATA:
            self._is_metadata_stale = True
            if not state.clear_replica() and completed.is_of_leader(state):
                self._delay(state, now_ms)
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # A replica may lag behind, so the leader is asked before the position is given up.
            if not state.clear_replica() and state.position is not None and state.position.offset == offset:
                self._reset(partition, state)
        elif code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise TopicsUnauthorized([partition.topic])
        elif code == ErrorCode.CORRUPT_MESSAGE:
            if self._is_damaged_again(completed, state, now_ms):
                raise UnreadableRecords(partition, offset, "the broker found it corrupt")
        elif code in _IGNORED:
            self._delay(state, now_ms)
        else:
            raise ApiError(error_code(code), f"Unexpected error while fetching {partition} at offset {offset}")

    def _reset(self, partition: TopicPartition, state: AssignedPartition) -> None:
        if self._subscription.reset == NO_RESET:
            assert state.position is not None, "only a position is out of range"
            message = f"Fetch position {state.position.offset} is out of range for partition {partition}"
            raise OffsetsOutOfRange({partition: state.position.offset}, message)
        state.request_reset(self._subscription.reset)


def _pass_over_the_rest(completed: CompletedFetch, state: AssignedPartition) -> None:
    """Move the position past the offsets of a response that have no record for the user."""
    if state.position is not None and completed.next_offset > state.position.offset:
        state.advance(completed.next_offset, completed.last_epoch)


def _update_offsets(state: AssignedPartition, data: PartitionData) -> None:
    """Note the offsets of the log that a response has."""
    if data.high_watermark >= 0:
        state.high_watermark = data.high_watermark
    if data.log_start_offset >= 0:
        state.log_start_offset = data.log_start_offset
    if data.last_stable_offset >= 0:
        state.last_stable_offset = data.last_stable_offset
