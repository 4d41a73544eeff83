"""The brokers that ended a moment ago, which Metadata responses still list.

Kafka lists a dead broker until its session ends, 9 s later. This broker's controller fences it within milliseconds, and
a broker that restarts serves again within a second. librdkafka suffers from a response that lacks such a broker:

- librdkafka may lose a second if one response has a new leader and lacks the old leader's broker. It first moves
  the partition to its new leader, then resets it to no leader as it removes the old broker, and asks again after its
  next interval of a second.
- A transactional producer may hang. It sends its next TxnOffsetCommit to the group coordinator that it knows, even if
  it has removed that broker, and waits until the connection to another broker ends. Kafka's brokers cause this too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykbroker.core.metadata.image import BrokerImage

LISTED_S = 3.0
"""The time for which a broker that was fenced stays in Metadata responses."""


class Departures:
    """The times at which brokers were fenced. `clock` returns a monotonic time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._unfenced: set[int] = set()
        self._until: dict[int, float] = {}

    def note(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Compare the brokers of new metadata with those of the last call."""
        unfenced = {broker.id for broker in brokers.values() if not broker.fenced}
        gone, self._unfenced = self._unfenced - unfenced, unfenced
        if not gone and not self._until:
            return
        now_s = self._clock()
        self._until |= dict.fromkeys(gone & brokers.keys(), now_s + LISTED_S)
        self._until = {one: until for one, until in self._until.items() if until > now_s and one not in unfenced}

    def __contains__(self, broker_id: int) -> bool:
        """Whether a broker is still listed, as of the last `note`."""
        return broker_id in self._until

    def __bool__(self) -> bool:
        """Whether any broker is still listed."""
        return bool(self._until)
