"""The partitions of a fetcher that are left out of its requests while the follower's quota is exceeded (KIP-73)."""

from __future__ import annotations

from pykbroker.core.replication.fetch_plan import FollowerPlan
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.following.followed import Followed


class ThrottledFollowed:
    """The throttled partitions of one fetcher.

    A partition counts as in sync, and is never left out, once the leader's last answer has shown no committed record
    that it lacks. Only partitions that are not in sync are looked at before a request.
    """

    def __init__(self, plan: FollowerPlan[Followed], quota: ReplicationQuota) -> None:
        self._plan, self._quota = plan, quota
        self._behind: dict[TopicIdPartition, Followed] = {}
        self._left_out: dict[TopicIdPartition, Followed] = {}

    def __len__(self) -> int:
        return len(self._left_out)

    def add(self, followed: Followed) -> None:
        """Note a partition that is fetched from now on, and whose lag is unknown."""
        self._behind[followed.key] = followed

    def remove(self, followed: Followed) -> None:
        """Forget a partition that is fetched no longer."""
        for partitions in (self._behind, self._left_out):
            if partitions.get(followed.key) is followed:
                del partitions[followed.key]

    def note_answer(self, followed: Followed, size: int, leader_high_watermark: int, now_ms: float) -> None:
        """Note that `size` bytes of a partition were stored, and whether it is in sync now."""
        log, quota = followed.partition.log, self._quota
        if log is not None and log.state.log_end_offset >= leader_high_watermark:
            self._behind.pop(followed.key, None)
        else:
            self._behind[followed.key] = followed
        if size and quota.covers(followed.partition.key):
            quota.record(size, now_ms)

    def sort_out(self, now_ms: float) -> None:
        """Leave out the partitions that must wait, and fetch those again that need not wait any more."""
        quota, plan = self._quota, self._plan
        if quota.is_exceeded(now_ms):
            for key, followed in list(self._behind.items()):
                if plan.get(key) is followed and quota.covers(followed.partition.key):
                    plan.remove(key)
                    self._left_out[key] = followed
        elif not self._left_out:
            return
        for key, followed in list(self._left_out.items()):
            if not quota.holds_back(followed.partition.key, now_ms):
                del self._left_out[key]
                if followed.position is not None:
                    # It is as old as the pause, and must not count as a sign that the log is level.
                    followed.leader_high_watermark = None
                    plan.add(key, followed)

    def wait_ms(self, now_ms: float) -> float:
        """Return the time until the quota allows more traffic, if no other fetcher uses it."""
        return self._quota.wait_ms(now_ms)
