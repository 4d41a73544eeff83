"""The error handling of a partition: OSErrors become ApiErrors, and logs and log directories go offline."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.repair import Repair
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.files.refusals import NO_ROOM, VANISHED
from pykbroker.world.disk import Shortened
from wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from pykbroker.replica.partition import Partition

logger = logging.getLogger(__name__)


class PartitionGuard:
    """The error handling for one partition's log and log directory. A repeated error is logged once."""

    __slots__ = ("_partition", "_reported_errno")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._reported_errno: int | None = None

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert an OSError of the block into an ApiError, and take the partition offline if its log is damaged.

        After a move to another log directory, and after the deletion of the partition, errors of the old log have no
        effect on the partition.
        """
        log = self._partition.log
        try:
            yield
        except (CorruptLog, OSError) as error:
            if log is not self._partition.log:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from error
            role = self._partition.role
            if log is not None and log.state.is_deleted and isinstance(role, Following):
                raise ApiError(role.absence) from error  # the files were deleted while the block waited for the disk
            raise self._failed(error) from error

    def _failed(self, error: CorruptLog | OSError) -> ApiError:
        return self._go_offline(error) if isinstance(error, (CorruptLog, Shortened)) else self.refused(error)

    def _go_offline(self, error: CorruptLog | OSError) -> ApiError:
        partition = self._partition
        logger.error("%s: going offline: %s", partition.key, error)
        partition.log, partition.repair = None, Repair()
        partition.directory.set_offline(partition.key)
        partition.resign(Following(partition.leader_epoch))
        partition.keeper.note_damage()
        return self.offline()

    def offline(self) -> ApiError:
        """Return the error for clients while the partition is offline."""
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self._partition.key} is offline")

    def refused(self, error: OSError) -> ApiError:
        """Return the error for clients after an OSError of the disk.

        The error may take the log directory offline. The partition goes offline if its directory has vanished: its open
        files would take records that the next start does not find.
        """
        key, directory, log = self._partition.key, self._partition.directory, self._partition.log
        directory.fail(error)
        if error.errno in VANISHED and log is not None and not directory.exists(log.directory):
            return self._go_offline(error)
        if error.errno in NO_ROOM:
            self._partition.keeper.note_refused_append(self._partition)
        if error.errno != self._reported_errno:
            logger.warning("%s: an operation on the log directory %s failed: %s", key, directory.path, error)
            self._reported_errno = error.errno
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"an operation on the log directory failed: {error.strerror}")
