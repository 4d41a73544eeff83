"""The workload of logs: producers of every kind, and consumers that read all records. It has no transactions."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice

import trio

from pykbroker.sim.checkers import check
from pykbroker.sim.client import SimConnection
from pykbroker.sim.consumer import NotServed, SimConsumer, read_all
from pykbroker.sim.history import History, Place, PollResult
from pykbroker.sim.producer import UNDECIDED, UNDECIDED_WHEN_REPLICATED, SimProducer
from pykbroker.sim.stage import Stage
from pykbroker.sim.workload import PROGRESS_S_MAX
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from wire.sentinels import ACKS_ALL

TOPICS = {"rolls": 3, "plain": 1}
PLACES: tuple[Place, ...] = tuple((topic, index) for topic, count in TOPICS.items() for index in range(count))
SEGMENT_BYTES = 30_000
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
KINDS_OF_PRODUCER = ((True, ACKS_ALL), (True, ACKS_ALL), (False, 1), (False, 0))
"""The pairs of (whether the producer is idempotent, its acks)."""
REPLICATED_KINDS = (*[(True, ACKS_ALL)] * 3, (False, ACKS_ALL))
"""The kinds of producers of replicated partitions: a new leader may lack what is acknowledged with fewer acks."""

SPREAD_S = 0.03
"""The longest pause between two batches for replicated partitions, in which a broker may begin to lead."""


class LogWorkload:
    """The workload of logs. It matches `workload.Workload`.

    If `compacted` is true, the topics are compacted. Every record then has a unique key, so that compaction must not
    remove any. If partitions have several replicas, every second producer writes to one partition only, so that it
    does not wait for the leaders of the others.
    """

    def __init__(self, stage: Stage, producers: int, consumers: int, *, compacted: bool) -> None:
        self._stage, self._compacted, self._history = stage, compacted, History(stage.unexpected, stage.deleted)
        kinds = REPLICATED_KINDS if stage.replicated else KINDS_OF_PRODUCER
        self._producers = [
            SimProducer(
                f"p{number}",
                stage.dialer(f"p{number}"),
                self._history,
                [PLACES[number % len(PLACES)]] if stage.replicated and number % 2 else list(PLACES),
                stage.wall_ms,
                idempotent=idempotent,
                acks=acks,
                keyed=compacted,
                undecided=UNDECIDED_WHEN_REPLICATED if stage.replicated else UNDECIDED,
                spread_s=SPREAD_S if stage.replicated else 0,
            )
            for number, (idempotent, acks) in enumerate(islice(cycle(kinds), producers))
        ]
        self._consumers = [
            SimConsumer(f"c{number}", stage.dialer(f"c{number}"), self._history, list(PLACES))
            for number in range(consumers)
        ]

    @property
    def clients(self) -> list[str]:
        """Return the names of the clients' hosts."""
        return [each.name for each in self._producers] + [each.name for each in self._consumers]

    @property
    def topics(self) -> list[CreatableTopic]:
        """Return a topic whose segments roll often, and a topic with the default configs."""
        configs = {"internal.segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "1000"}
        configs |= COMPACTED if self._compacted else {}
        return [
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in (configs if topic == "rolls" else {}).items()
                ],
            )
            for topic, partitions in TOPICS.items()
        ]

    def start(self, nursery: trio.Nursery) -> None:
        """Run the clients until the nursery is cancelled."""
        for consumer in self._consumers:
            nursery.start_soon(consumer.run)
        for producer in self._producers:
            nursery.start_soon(producer.run)

    async def settle(self) -> list[str]:
        """Wait until every producer has all its responses."""
        for producer in self._producers:
            producer.draining = True
        with trio.move_on_after(PROGRESS_S_MAX):
            for producer in self._producers:
                await producer.done.wait()
        return [
            f"{producer.name} has no answer {PROGRESS_S_MAX:.0f} s after the last fault"
            for producer in self._producers
            if producer.waits
        ]

    async def judge(self) -> list[str]:
        """Read all partitions once more and check the history."""
        final: list[PollResult] = []
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._stage.until_answered(partial(read_missing, PLACES, final, self._history))
        return [
            *unread(PLACES, final),
            *(
                f"{each.kind} in {each.place}: {each.what}"
                for each in check(self._history, final, replicated=self._stage.replicated)
            ),
        ]

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged values."""
        return self._history.acknowledged()

    @property
    def read(self) -> int:
        """Return the number of values that were read. A value counts each time that it was read."""
        return sum(len(poll.found) for poll in self._history.polls)


async def read_missing(
    places: tuple[Place, ...],
    final: list[PollResult],
    history: History,
    connection: SimConnection,
    *,
    committed: bool = False,
) -> None:
    """Read the partitions that `final` lacks and add them. Raise an error of LOST if one still cannot be read."""
    missing = sorted(set(places) - {poll.place for poll in final})
    lost: Exception | None = None
    for place in missing:
        try:
            final.append(await read_all(connection, place, history, committed=committed))
        except NotServed as error:
            lost = error
    if lost is not None:
        raise lost


def unread(places: tuple[Place, ...], final: list[PollResult]) -> list[str]:
    """Return a finding for each partition that the final read lacks."""
    return [
        f"{place} cannot be read {PROGRESS_S_MAX:.0f} s after the last fault"
        for place in sorted(set(places) - {poll.place for poll in final})
    ]
