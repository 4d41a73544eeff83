"""The interface to the broker whose metrics the console serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from pykbroker.core.steps import Steps

if TYPE_CHECKING:
    from pykbroker.broker import BrokerHealth, BrokerStatistics
    from pykbroker.broker.group_statistics import GroupsStatistics
    from pykbroker.replica.topic_statistics import TopicsStatistics

T = TypeVar("T")


class Observer(Protocol):
    """A source of metrics. `pykbroker.broker.BrokerObserver` implements it."""

    async def statistics(self) -> BrokerStatistics: ...

    async def health(self) -> BrokerHealth:
        """Return what health checks ask for."""

    async def topics(self, *, with_leaderless: bool) -> TopicsStatistics:
        """Return the statistics of topics, and of the partitions that this broker leads.

        `with_leaderless` adds all partitions of the cluster that have no leader, which one node has to report.
        """

    async def groups(self) -> GroupsStatistics:
        """Return the members and offsets of the groups on this broker."""

    async def in_slices(self, steps: Steps[T]) -> T:
        """Run the generator `steps` in time slices of the event loop, and return its result."""
