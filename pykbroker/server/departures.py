"""The brokers that ended a moment ago, which Metadata responses still list.

Kafka lists a dead broker until its session ends, 9 s later. This broker's controller fences it within milliseconds. A
client that then learns of the new leader and of the end of the old one in a single response may lose a second:
librdkafka first moves the partition to its new leader, then resets it to no leader as it removes the old broker, and
asks again after its next interval of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykbroker.core.metadata.image import BrokerImage

LISTED_S = 3.0
"""The time for which a broker that was fenced without a controlled shutdown stays in Metadata responses."""


class Departures:
    """The times at which active brokers were fenced. `clock` returns a monotonic time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._active: set[int] = set()
        self._until: dict[int, float] = {}

    def note(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Compare the brokers of new metadata with those of the last call."""
        active = {broker.id for broker in brokers.values() if broker.active}
        gone, self._active = self._active - active, active
        if not gone and not self._until:
            return
        now_s = self._clock()
        for broker_id in gone:
            broker = brokers.get(broker_id)
            if broker is not None and broker.fenced and not broker.in_controlled_shutdown:
                self._until[broker_id] = now_s + LISTED_S
        self._until = {one: until for one, until in self._until.items() if until > now_s and one not in active}

    def __contains__(self, broker_id: int) -> bool:
        """Whether a broker is still listed, as of the last `note`."""
        return broker_id in self._until

    def __bool__(self) -> bool:
        """Whether any broker is still listed."""
        return bool(self._until)
