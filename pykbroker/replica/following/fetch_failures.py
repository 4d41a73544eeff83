"""The failures of the partitions of one fetcher: how often each has failed in a row, and what is logged about them.

Leaders and followers apply new metadata at different moments. While many topics are created, a leader refuses the
fetches of partitions that it does not know yet. Such errors are logged once they have lasted for `LASTS_S`, and other
errors at the fourth failure in a row. Partitions that are due at the same time share a line.
"""

from __future__ import annotations

import logging

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import LACKS_CLUSTER_ACTION
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.following.followed import Followed
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)

QUIET_FAILURES = 3
"""The number of failures in a row that are not logged."""
LASTS_S = 10.0
"""The time in seconds after which an error of `AHEAD` is logged."""
AHEAD = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
)
"""The errors of a leader that has not applied the follower's metadata yet."""


class Streak:
    """The failures of a partition in a row, the first of which was at `since` in seconds."""

    __slots__ = ("count", "is_logged", "since")

    def __init__(self, since: float) -> None:
        self.since, self.count, self.is_logged = since, 0, False


class FetchFailures:
    """The partitions that cannot be fetched from `leader`. A partition is logged once until it has been fetched."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._streaks: dict[TopicIdPartition, Streak] = {}
        self._due: dict[str, list[Followed]] = {}

    def note(self, followed: Followed, error: ErrorCode | Exception, now_s: float) -> int:
        """Note a failure. Return how often the partition had failed in a row before."""
        streak = self._streaks.setdefault(followed.key, Streak(now_s))
        streak.count += 1
        code = error.code if isinstance(error, ApiError) else error
        is_due = now_s - streak.since >= LASTS_S if code in AHEAD else streak.count > QUIET_FAILURES
        if is_due and not streak.is_logged:
            streak.is_logged = True
            self._due.setdefault(reason_of(error), []).append(followed)
        return streak.count - 1

    def forget(self, key: TopicIdPartition) -> None:
        """Forget the failures of a partition that was fetched, or is not followed any more."""
        self._streaks.pop(key, None)

    def log(self) -> None:
        """Log the partitions that have become due, in one line for each reason."""
        due, self._due = self._due, {}
        for reason, partitions in due.items():
            first, others = partitions[0], len(partitions) - 1
            logger.warning(
                "%s: cannot fetch from its leader %d%s: %s; retrying",
                first,
                self._leader,
                f", and {others} more partitions" if others else "",
                reason,
            )


def reason_of(error: ErrorCode | Exception) -> str:
    """Return why a partition cannot be fetched. A leader refuses a fetch of a stranger as that of a client."""
    if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return LACKS_CLUSTER_ACTION
    return error.name if isinstance(error, ErrorCode) else str(error)
