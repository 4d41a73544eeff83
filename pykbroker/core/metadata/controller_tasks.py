"""The tasks of the controller that no request starts: it fences silent brokers and balances leaders.

1. One broker is fenced at a time, so that the effects of the first are seen before the next. The broker's record comes
   first, and its partitions follow in portions.
2. Preferred leaders are elected every leader.imbalance.check.interval.seconds.
3. Partitions without a leader are looked at after the start and every unclean.leader.election.interval.ms: an
   interrupted election is completed, and an unclean election takes place where it is allowed.
4. No records are written while nothing happens. Kafka's controller writes a NoOpRecord every 500 ms, so that the lag of
   standby controllers can be measured; brokers do not need it, because every response to a fetch tells them that the
   leader is alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf

import msgspec

from pykbroker.core.metadata.broker_changes import PORTION_PARTITIONS, change_broker, everywhere, unserved
from pykbroker.core.metadata.context import ControllerContext
from pykbroker.core.metadata.election import Rules
from pykbroker.core.metadata.image import TopicImage
from pykbroker.core.metadata.partition_change import ReplicaAssignment, change, repair, repairs
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.steps import finish
from pykbroker.core.topic_partition import TopicIdPartition
from wire.sentinels import NO_LEADER

AT_ONCE = 0.0
REFUSED_RETRY_MS = 1_000
"""The pause after records that the log did not take, such as while its disk is full."""


class Sweep:
    """A walk through partitions at an interval, in portions."""

    def __init__(self, interval_ms: float) -> None:
        self._interval_ms = interval_ms
        self._due_ms = inf
        self._rest: Iterator[TopicIdPartition] | None = None

    @property
    def deadline_ms(self) -> float:
        """Return when the next portion is due."""
        return AT_ONCE if self._rest is not None else self._due_ms

    def plan(self, now_ms: float) -> None:
        """Walk at this time, and from then on at the interval."""
        self._due_ms = now_ms

    def portion(self, partitions: Iterable[TopicIdPartition], now_ms: float) -> list[TopicIdPartition]:
        """Return the next partitions to look at, none if no walk is due. `partitions` are all of them."""
        if self._rest is None:
            if now_ms < self._due_ms:
                return []
            self._rest, self._due_ms = iter(list(partitions)), now_ms + self._interval_ms
        taken = list(islice(self._rest, PORTION_PARTITIONS))
        if len(taken) < PORTION_PARTITIONS:
            self._rest = None
        return taken


class ControllerTasks:
    """The tasks of the active controller, each in portions. They begin with `activate`."""

    def __init__(self, settings: ControllerSettings) -> None:
        self._settings = settings
        self._unsettled: dict[int, None] = {}  # brokers that may still have partitions which they do not serve
        self._balance = Sweep(settings.leader_imbalance_check_interval_s * 1_000)
        self._leaderless = Sweep(settings.unclean_leader_election_interval_ms)
        self._starting = True  # the first walk holds no unclean elections: brokers may be about to return
        self._not_before_ms = AT_ONCE

    def deadline_ms(self, sessions_ms: float) -> float:
        """Return when `run` must be called. `sessions_ms` is when the sessions must be checked."""
        soonest = min(sessions_ms, self._balance.deadline_ms, self._leaderless.deadline_ms)
        return max(AT_ONCE if self._unsettled else soonest, self._not_before_ms)

    def activate(self, context: ControllerContext) -> None:
        """Begin all tasks. Continue what an earlier controller has begun."""
        context.sessions.begin(context.draft.brokers.values(), context.now_ms)
        known = {**context.index.isr, **context.index.elr}
        self._unsettled = {broker_id: None for broker_id in known if next(_left(context, broker_id), None) is not None}
        if self._settings.auto_leader_rebalance_enable:
            self._balance.plan(context.now_ms + self._settings.leader_imbalance_check_interval_s * 1_000)
        self._leaderless.plan(context.now_ms)
        self._starting = True

    def note_replayed(self, broker_id: int | None) -> None:
        """Note that the log has taken a record. `broker_id` is the broker whose registration it changes, if any."""
        self._not_before_ms = AT_ONCE
        if broker_id is not None:
            self._unsettled[broker_id] = None

    def run(self, context: ControllerContext) -> list[Record]:
        """Return the records of the next portion of the tasks that are due."""
        records = self._settle(context) or self._fence(context) or self._balanced(context) or self._led(context)
        if records:
            # `note_replayed` ends this pause. It lasts only if the log refuses the records.
            self._not_before_ms = context.now_ms + REFUSED_RETRY_MS
        return records

    def _settle(self, context: ControllerContext) -> list[Record]:
        while self._unsettled:
            broker_id = next(iter(self._unsettled))
            lost = broker_id if context.broker(broker_id) is None else None
            partitions = islice(_left(context, broker_id), PORTION_PARTITIONS)
            if records := finish(repairs(context, partitions, lost)):
                return records
            del self._unsettled[broker_id]
        return []

    def _fence(self, context: ControllerContext) -> list[Record]:
        if context.now_ms < context.sessions.deadline_ms:
            return []
        stale = context.sessions.expired(context.draft.brokers, context.now_ms)
        if not stale:
            return []
        if len(stale) > 1:
            context.sessions.check_at(context.now_ms)
        return finish(change_broker(context, stale[0], msgspec.structs.replace(stale[0], fenced=True)))

    def _balanced(self, context: ControllerContext) -> list[Record]:
        records: list[Record] = []
        for topic, index, rules in _existing(context, self._balance.portion(context.index.unbalanced, context.now_ms)):
            partition = topic.partitions[index]
            preferred = partition.replicas[0]
            if preferred not in partition.isr or not context.usable(partition, preferred):
                continue
            record = change(context, topic, index, ReplicaAssignment.of(partition), rules, prefer_first=True)
            records += [record] if record is not None else []
        return records

    def _led(self, context: ControllerContext) -> list[Record]:
        records: list[Record] = []
        portion = self._leaderless.portion(context.index.led[NO_LEADER], context.now_ms)
        for topic, index, rules in _existing(context, portion):
            allowed = msgspec.structs.replace(rules, unclean=False) if self._starting else rules
            record = repair(context, topic, index, allowed)
            records += [record] if record is not None else []
        if self._leaderless.deadline_ms > context.now_ms:
            self._starting = False
        return records


def _left(context: ControllerContext, broker_id: int) -> Iterator[TopicIdPartition]:
    """Yield the partitions that the broker must still leave. An unregistered broker leaves the ELR too."""
    return (everywhere if context.broker(broker_id) is None else unserved)(context, broker_id)


def _existing(context: ControllerContext, keys: Iterable[TopicIdPartition]) -> Iterator[tuple[TopicImage, int, Rules]]:
    """Yield the topic, the index and the rules of the partitions that still exist."""
    rules: dict[bytes, Rules] = {}
    for topic_id, index in keys:
        topic = context.draft.topics.get(topic_id)
        if topic is not None and index in topic.partitions:
            if topic_id not in rules:
                rules[topic_id] = context.rules(topic.name)
            yield topic, index, rules[topic_id]
