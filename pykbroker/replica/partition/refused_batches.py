"""The batches that a partition has refused and that their producers repeat (`core/log/refused_sequences`)."""

from __future__ import annotations

from pykbroker.core.log.producers import Producers
from pykbroker.core.log.refused_sequences import REPEATED, RefusalLimit, RefusedSequences
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Buffer
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import Batch


class RefusedBatches:
    """The memory of one partition, whether it leads, follows or is offline. It costs nothing before a refusal."""

    __slots__ = ("_limit", "_sequences")

    def __init__(self, limit: RefusalLimit) -> None:
        """Remember no batch yet. All partitions of a broker share the limit."""
        self._limit = limit
        self._sequences: RefusedSequences | None = None

    def note(self, log: Log | None, data: Buffer, code: ErrorCode, now_ms: int) -> None:
        """Remember a client's batch that was refused with `code`, so that what follows it gets the same error.

        `log` is None while the partition is offline. Nothing is remembered of errors that are not in `REPEATED`, and of
        batches without a sequence.
        """
        if code not in REPEATED:
            return
        try:
            batch = Batch.read(data)
        except DecodeError:
            return  # the log would refuse it, too
        if batch.producer_id >= 0 <= batch.base_sequence:
            self._note(log, batch.producer_id, batch.producer_epoch, batch.base_sequence, code, now_ms)

    def note_truncated(self, log: Log, before: Producers) -> None:
        """Remember the batches that a truncation has removed. `before` is the producers' state of the longer log.

        The producers of these batches got NOT_LEADER_OR_FOLLOWER. The batches that follow may come once this broker
        leads again.
        """
        for one, sequence in log.producers.removed_since(before):
            code, time_ms = ErrorCode.NOT_LEADER_OR_FOLLOWER, one.last_timestamp
            self._note(log, one.producer_id, one.epoch, sequence, code, time_ms)

    def _note(self, log: Log | None, producer_id: int, epoch: int, sequence: int, code: ErrorCode, now_ms: int) -> None:
        if self._sequences is None:
            self._sequences = RefusedSequences(self._limit)
        expected = None
        if log is not None:
            self.join(log)
            expected = log.producers.expected(producer_id, epoch)
        self._sequences.note(producer_id, epoch, sequence, code, expected, now_ms)

    def join(self, log: Log) -> None:
        """Let the log, whose state of producers may be new, respect what was refused."""
        if self._sequences is not None:
            log.producers.refused = self._sequences

    def forget(self) -> None:
        """Forget all batches, because the log has lost the state of its producers or is deleted."""
        if self._sequences is not None:
            self._sequences.clear()
