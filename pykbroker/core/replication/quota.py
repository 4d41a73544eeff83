"""The quota of one kind of replication traffic: bytes per second, averaged over windows of time (KIP-73)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pykbroker.core.topic_partition import TopicPartition

NO_LIMIT = (1 << 63) - 1
"""The default of the throttled rates, in bytes per second."""
ALL = "*"
"""The entry of a list of throttled replicas that stands for all replicas of the topic."""
MS_PER_S = 1000


class ReplicationQuota:
    """A limit on the traffic of throttled replicas. Times are in ms, monotonic.

    The rate is averaged over at most `windows` windows of `window_ms`, and over one window at least. A message of any
    size may pass while the rate is not above the limit, so that every replica makes progress. The default windows are
    those of Kafka's `replication.quota.window.num` and `replication.quota.window.size.seconds`.
    """

    def __init__(self, windows: int = 11, window_ms: float = 1000) -> None:
        self._windows, self._window_ms = windows, window_ms
        self._bytes_per_s = NO_LIMIT
        self._throttled: dict[str, frozenset[int] | None] = {}
        """The throttled partitions of each topic, None for all."""
        self._samples: deque[tuple[float, int]] = deque()
        """The begin of each window that has traffic, and its bytes. The oldest window comes first."""
        self._size = 0

    # ---- configs

    def limit(self, bytes_per_s: int) -> None:
        """Set the limit, `NO_LIMIT` for none."""
        self._bytes_per_s = bytes_per_s

    def throttle(self, topic: str, replicas: Iterable[str], node_id: int) -> None:
        """Set the throttled replicas of a topic: `*`, or partition:broker pairs, of which those of `node_id` count."""
        replicas = tuple(replicas)
        self._throttled.pop(topic, None)
        if replicas == (ALL,):
            self._throttled[topic] = None
            return
        pairs = (pair.split(":") for pair in replicas)
        own = frozenset(int(partition) for partition, broker in pairs if int(broker) == node_id)
        if own:
            self._throttled[topic] = own

    def covers(self, key: TopicPartition) -> bool:
        """Whether the replica of this partition on this broker is throttled, and its traffic is measured."""
        if key.topic not in self._throttled:
            return False
        partitions = self._throttled[key.topic]
        return partitions is None or key.partition in partitions

    # ---- traffic

    def record(self, size: int, now_ms: float) -> None:
        """Add `size` bytes of traffic."""
        self._forget_old(now_ms)
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._window_ms:
            begun, before = samples.pop()
            samples.append((begun, before + size))
        else:
            samples.append((now_ms, size))
        self._size += size

    def is_exceeded(self, now_ms: float) -> bool:
        """Whether the rate is above the limit, so that throttled replicas must wait."""
        if self._bytes_per_s == NO_LIMIT:
            return False
        self._forget_old(now_ms)
        if not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return self._size * MS_PER_S > self._bytes_per_s * elapsed_ms

    def holds_back(self, key: TopicPartition, now_ms: float) -> bool:
        """Whether the replica of this partition must wait now."""
        return self.covers(key) and self.is_exceeded(now_ms)

    def wait_ms(self, now_ms: float) -> float:
        """Return the time until the rate is no longer above the limit, without further traffic."""
        if not self.is_exceeded(now_ms):
            return 0
        begun, _ = self._samples[0]
        ends_ms = begun + self._windows * self._window_ms
        if self._bytes_per_s:
            ends_ms = min(ends_ms, begun + self._size * MS_PER_S / self._bytes_per_s)
        return max(ends_ms - now_ms, 1)

    def _forget_old(self, now_ms: float) -> None:
        samples, age_ms = self._samples, self._windows * self._window_ms
        while samples and now_ms - samples[0][0] >= age_ms:
            self._size -= samples.popleft()[1]
