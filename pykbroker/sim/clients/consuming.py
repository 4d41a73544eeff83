"""The members of a group under faults, and the check that they skip, repeat and reorder nothing without a reason."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

import trio

from pykbroker.client.errors import Disconnected
from pykbroker.consumer import CommittedOffset, Consumer, ConsumerRecord, RebalanceListener
from pykbroker.core.consumer.errors import ConsumerError, UnreadableRecords
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.clients.stage import PARTITIONS, TOPIC, ClientStage
from pykbroker.sim.process import Process
from pykbroker.sim.scripted.node import ScriptedNode
from wire.api import ApiKey
from wire.header import RequestHeader
from wire.records.builder import BatchBuilder

MEMBERS, GROUP = 3, "readers"
BATCHES, RECORDS_MAX = 120, 5
HEAL_S_MAX = 120.0
"""The time after the last fault within which the group must have read everything."""
PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "roundrobin"},
    {"partition_assignment_strategy": "sticky"},
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"group_protocol": "consumer"},
)
ABORTED = b"aborted"


class Ownership(RebalanceListener):
    """The partitions that a member owns, by its listener, and the next offset of each that it was given."""

    def __init__(self, run: ConsumerRun, name: str) -> None:
        self._run, self._name = run, name
        self.next: dict[TopicPartition, int | None] = {}

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Note the partitions. The first records of each must not be committed yet."""
        for partition in sorted(partitions):
            self._run.expect(partition not in self.next, f"{self._name}: {partition} is assigned again")
            self.next[partition] = None
            self._run.floors[self._name, partition] = self._run.committed.get(partition, 0)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Take a while, and forget the partitions."""
        await trio.sleep(self._run.dice.choice((0, 0.5)))
        self._forget(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in sorted(partitions):
            self._run.expect(partition in self.next, f"{self._name}: {partition} was not assigned, and is taken away")
            self.next.pop(partition, None)


class ConsumerRun:
    """A topic that is filled all the time, and the members of a group, which come, go and crash."""

    def __init__(self, stage: ClientStage, **settings: Any) -> None:
        self._stage, self.expect = stage, stage.expect
        self.dice = dice = stage.simulation.dice("consumers")
        self._settings: dict[str, Any] = {
            "bootstrap_servers": stage.bootstrap,
            "group_id": GROUP,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "enable_auto_commit": dice.random() < 0.5,
            "auto_commit_interval_ms": 300,
            "max_poll_records": dice.choice((1, 7, 500)),
            "request_timeout_ms": 2_000,
            "default_api_timeout_ms": 10_000,
            "metadata_max_age_ms": 2_000,
            "retry_backoff_ms": 50,
            **dice.choice(PROTOCOLS),
            **settings,
        }
        if "group_protocol" not in self._settings:
            self._settings |= {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
        self.values: dict[tuple[int, int], bytes] = {}
        """The committed values, by partition and offset."""
        self.given: dict[tuple[int, int], int] = {}
        """The number of times that each of them was given to a member."""
        self.committed: dict[TopicPartition, int] = {}
        """The largest offset of each partition whose commit has succeeded."""
        self.floors: dict[tuple[str, TopicPartition], int] = {}
        self._arrived: dict[TopicPartition, set[int]] = {each: set() for each in stage.partitions}
        """The offsets of each partition for which a commit has reached a node."""
        self._gone_back: dict[TopicPartition, int] = {}
        """The smallest offset of each partition whose commit has reached a node after that of a larger one."""
        for node in stage.cluster.nodes.values():
            node.scripts.insert(0, self._watch_commits)
        self._joined, self._is_filled, self._is_read = 0, False, trio.Event()

    async def run(self, calm: trio.Event) -> None:
        """Fill the topic while members read, until `calm` is set and everything is read."""
        async with trio.open_nursery() as nursery:
            for _ in range(MEMBERS):
                nursery.start_soon(self._keep_member)
            await self._fill()
            await calm.wait()
            self._is_filled = True
            self._note_progress()
            with trio.move_on_after(HEAL_S_MAX):
                await self._is_read.wait()
            if not self._is_read.is_set():
                missing = sorted(self.values.keys() - self.given.keys())
                self.expect(False, f"stuck: {len(missing)} records were never given, the first are {missing[:3]}")
            nursery.cancel_scope.cancel()

    # ---- the topic

    async def _fill(self) -> None:
        """Append batches, of which some belong to aborted transactions."""
        for number in range(BATCHES):
            partition = TopicPartition(TOPIC, self.dice.randrange(PARTITIONS))
            log, epoch = self._stage.state.log(partition), self._stage.state.leader_epoch(partition)
            count, aborts = self.dice.randint(1, RECORDS_MAX), self.dice.random() < 0.2
            fields: dict[str, Any] = {}
            if aborts:
                fields = {"producer_id": number, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
            batch = BatchBuilder(**fields)
            for index in range(count):
                batch.append(None, ABORTED if aborts else b"%d %d" % (number, index), timestamp=1)
            verification = log.producers.begin_verification(number, 0, 0, 0) if aborts else None
            base = log.append(bytes(batch.build()), epoch, verification)
            if aborts:
                await trio.sleep(self.dice.random() / 10)
                log.append_marker(Marker(number, 0, False, 0), epoch, 1)
            else:
                self.values |= {
                    (partition.partition, base + index): b"%d %d" % (number, index) for index in range(count)
                }
            await trio.sleep(self.dice.expovariate(5))

    # ---- the members

    async def _keep_member(self) -> None:
        """Let a member join, and another one after it has left or crashed."""
        while True:
            self._joined += 1
            name = f"member{self._joined}"
            life_s = 1e9 if self._is_filled else self.dice.choice((3, 10, 1e9))
            crashes, ended = self.dice.random() < 0.3, trio.Event()
            process = self._process(name)
            self._stage.simulation.start(process, self._live, name, process, 1e9 if crashes else life_s, ended)
            with trio.move_on_after(life_s if crashes else 1e9):
                await ended.wait()
            process.kill()
            await trio.sleep(self.dice.random())

    def _process(self, name: str) -> Process:
        """Return a process whose death closes its connections."""
        process = Process(name, died=lambda: self._stage.network.kill(process))
        return process

    async def _live(self, name: str, process: Process, life_s: float, ended: trio.Event) -> None:
        with trio.move_on_after(life_s):
            await self._member(name, process)
        ended.set()

    async def _member(self, name: str, process: Process) -> None:
        ownership = Ownership(self, name)
        with suppress(ApiError, ConsumerError, TimeoutError, Disconnected):
            async with Consumer(world=self._stage.world(name, process), **self._settings) as consumer:
                consumer.subscribe([TOPIC], listener=ownership)
                while True:
                    try:
                        records = await consumer.poll(0.5)
                    except UnreadableRecords:
                        await trio.sleep(0.1)
                        continue  # the next response may be whole
                    for record in records:
                        self._note(name, ownership, record)
                    await trio.sleep(self.dice.choice((0, 0, 0.2)))
                    if records and not self._settings["enable_auto_commit"]:
                        await self._commit(consumer, ownership)

    def _note(self, name: str, ownership: Ownership, record: ConsumerRecord) -> None:
        partition, at = TopicPartition(record.topic, record.partition), (record.partition, record.offset)
        place = f"{name}: {at}"
        self.expect(partition in ownership.next, f"not owned: {place}")
        self.expect(
            record.value == self.values.get(at), f"wrong: {place} is {record.value!r}, not {self.values.get(at)!r}"
        )
        before = ownership.next.get(partition)
        floor = self._floor(name, partition) if before is None else before
        self.expect(record.offset >= floor, f"back: {place}, though {floor} was next")
        skipped = [offset for offset in range(floor, record.offset) if (record.partition, offset) in self.values]
        lost = [offset for offset in skipped if before is not None or (record.partition, offset) not in self.given]
        self.expect(not lost, f"skipped: {place}, and not {lost}")
        if partition in ownership.next:
            ownership.next[partition] = record.offset + 1
        self.given[at] = self.given.get(at, 0) + 1
        self._note_progress()

    def _floor(self, name: str, partition: TopicPartition) -> int:
        """Return the smallest offset at which a new owner may start.

        A commit that is sent again may leave a first copy in the network. As in Kafka, it takes effect even if it
        arrives after later commits of the same generation.
        """
        floor = self.floors.get((name, partition), 0)
        return min(floor, self._gone_back.get(partition, floor))

    async def _watch_commits(self, node: ScriptedNode, header: RequestHeader, request: Any) -> None:
        if header.key != ApiKey.OFFSET_COMMIT:
            return
        for topic in request.topics:
            for commit in topic.partitions:
                partition, offset = TopicPartition(TOPIC, commit.partition_index), commit.committed_offset
                arrived = self._arrived[partition]
                if arrived and offset < max(arrived):
                    self._gone_back[partition] = min(offset, self._gone_back.get(partition, offset))
                arrived.add(offset)

    def _note_progress(self) -> None:
        if self._is_filled and self.given.keys() >= self.values.keys():
            self._is_read.set()

    async def _commit(self, consumer: Consumer, ownership: Ownership) -> None:
        """Commit what was given. A rebalance may refuse the commit."""
        offsets = {each: CommittedOffset(offset) for each, offset in ownership.next.items() if offset is not None}
        with suppress(ApiError, ConsumerError, TimeoutError):
            await consumer.commit(offsets)
            for partition, (offset, *_) in offsets.items():
                self.committed[partition] = max(offset, self.committed.get(partition, 0))

    # ---- the check

    async def check(self) -> None:
        """Compare the committed offsets with those whose commit succeeded."""
        world = self._stage.world("checker")
        async with Consumer(world=world, bootstrap_servers=self._stage.bootstrap, group_id=GROUP) as consumer:
            found = await consumer.committed(self._stage.partitions)
        for partition, offset in self.committed.items():
            place, floor = found.get(partition), min(offset, self._gone_back.get(partition, offset))
            self.expect(place is not None and place.offset >= floor, f"commit: {place} of {partition}, not {offset}")
