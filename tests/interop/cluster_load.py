"""A load on a cluster: two producers, a group that reads, and a group that copies in transactions.

`cluster_judge` says afterwards whether the cluster has kept what it acknowledged.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

import pykbroker.kafka
from tests.interop.leaving import leave
from tests.interop.scenarios import PATIENCE_S
from tests.interop.test_exactly_once import CLASSIC, ConfluentKafka

logger = logging.getLogger(__name__)
PARTITIONS = 6
COPIERS = READERS = 2
BURST, PAUSE_S = 5, 0.02
UNSETTLED_MAX = 4000
"""The records of a producer that may wait for their acknowledgement."""
SERVED_S_MAX, DRAIN_S_MAX, LEAVE_S_MAX = 60, 60, 20
CALL_S_MAX = 20
POLL_MS_MAX = 20_000
"""The time after which a copier that does not poll loses its partitions to the others.

A call of librdkafka may never return if the coordinator is killed meanwhile.
"""
HANG_S_MAX = PATIENCE_S + 5
"""The time after which a copier whose call does not return is given up, and another one takes its transactional id.

All calls have shorter timeouts, but a TxnOffsetCommit of librdkafka to a coordinator that it has removed may not end
(`pykbroker/server/departures.py`).
"""
COMMIT_MS_MAX = 60_000
"""A commit that a client gives up may still be written, after later commits of the same client."""
MOVED = (
    ck.KafkaError.NOT_COORDINATOR,
    ck.KafkaError.COORDINATOR_NOT_AVAILABLE,
    ck.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors of a coordinator that moves, which librdkafka does not hide from a caller of `committed`."""
QUICK: Mapping[str, Any] = {
    "socket.timeout.ms": 3000,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.max.ms": 300,
    "coordinator.query.interval.ms": 1000,
    "log_level": 0,
}
"""Settings with which librdkafka soon leaves a broker that does not answer.

By default it looks for the coordinator of a group every ten minutes, and every minute while the known one is down.
"""


class Acked(NamedTuple):
    """A record that the cluster has acknowledged, and when.

    The offset is None if a retry was answered with DUPLICATE_SEQUENCE_NUMBER, which names no offset.
    """

    number: int
    partition: int
    offset: int | None
    at: float


class Writer:
    """Numbered records of one producer: those it has sent, those that are acknowledged, and those that have failed."""

    def __init__(self, name: str) -> None:
        self.name, self.sent = name, 0
        self.epoch_bumps = 0
        """The number of times that the client has begun a new producer epoch."""
        self.acked: list[Acked] = []
        self.failed: list[str] = []

    def value(self, number: int) -> bytes:
        """Return the value of a record. Values of a writer are ordered as their numbers."""
        return b"%s %09d" % (self.name.encode(), number)

    def write(self, send: Callable[[int], object], ended: threading.Event) -> None:
        """Send records until `ended` is set."""
        while not ended.wait(PAUSE_S):
            if self.sent - len(self.acked) - len(self.failed) < UNSETTLED_MAX:
                for _ in range(BURST):
                    number = self.sent
                    self.sent += 1
                    send(number)

    def settle(self, number: int, partition: int, offset: int | None) -> None:
        known = offset if offset is not None and offset >= 0 else None
        self.acked.append(Acked(number, partition, known, time.monotonic()))

    def gap_s(self, since: float) -> float:
        """Return the longest time without an acknowledgement in a partition."""
        gaps = [0.0]
        for partition in range(PARTITIONS):
            times = [each.at for each in self.acked if each.partition == partition and each.at > since]
            gaps += [after - before for before, after in zip([since, *times], times, strict=False)]
        return max(gaps)


class BumpCounter(logging.Handler):
    """A handler that counts the epoch bumps that librdkafka logs in the context `eos`."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        if "bumped epoch" in record.getMessage():
            self._writer.epoch_bumps += 1

    def logger(self, name: str) -> logging.Logger:
        """Return a new logger that has only this handler."""
        logger = logging.getLogger(f"librdkafka {name}")
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        return logger


class Task(threading.Thread):
    """A thread whose error is raised in the thread that checks it. A thread that does not end is abandoned."""

    def __init__(self, function: Callable[..., None], *arguments: object) -> None:
        super().__init__(daemon=True)
        self._function, self._arguments = function, arguments
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._function(*self._arguments)
        except BaseException as error:  # noqa: BLE001 - the thread that checks raises it
            self._error = error

    def check(self) -> None:
        """Raise the error that ended the thread."""
        if self._error is not None:
            raise self._error

    def end(self) -> None:
        """Wait until the thread has ended."""
        self.join(2 * DRAIN_S_MAX)
        assert not self.is_alive()
        self.check()


class Copier(Task):
    """A copier that shows that it goes on, until it is given up."""

    def __init__(self, copy: Callable[[Copier], None], transactional_id: str) -> None:
        self.transactional_id, self.is_given_up = transactional_id, False
        self._at = time.monotonic()
        super().__init__(copy, self)

    def show(self) -> None:
        """Show that the copier goes on."""
        self._at = time.monotonic()

    @property
    def hangs(self) -> bool:
        """Whether the copier is in a call that does not return."""
        return self.is_alive() and time.monotonic() > self._at + HANG_S_MAX

    @property
    def call(self) -> str:
        """Return the line that the copier is in."""
        frame = sys._current_frames().get(self.ident or 0)
        return "" if frame is None else str(traceback.extract_stack(frame)[-1].line)

    def end(self) -> None:
        """Wait until the thread has ended, or hangs: what it had to copy is copied, so that it is not replaced."""
        while self.is_alive() and not self.hangs:
            self.join(0.1)
        self.check()


class Commits:
    """The committed offsets of a group, by partition: those that its members know, and those that an observer finds."""

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        self.count = 0
        self._lock = threading.Lock()

    def learn(self, offsets: Mapping[int, int]) -> None:
        """Record offsets that are committed. The group may have committed more since."""
        with self._lock:
            self.count += 1
            for index, offset in offsets.items():
                self.offsets[index] = max(offset, self.offsets.get(index, 0))

    def known(self) -> dict[int, int]:
        with self._lock:
            return dict(self.offsets)


class Load:
    """Clients that run until `finish`. `errors` are errors that they were given, and went on after.

    `given_up` is the number of copiers that hung in a call.

    `has_kafka` says that brokers of Apache Kafka lead partitions. They answer OUT_OF_ORDER_SEQUENCE_NUMBER to a batch
    behind one that came before the leadership. librdkafka then begins a new producer epoch, in which it sends batches
    of other partitions again that were written already. They also accept the second batch of a producer whose first one
    came too early, which librdkafka then takes for written: all partitions are thus led before writers begin.
    """

    def __init__(self, bootstrap: str, assignment: list[list[int]] | None = None, *, has_kafka: bool = False) -> None:
        self.bootstrap, self._has_kafka = bootstrap, has_kafka
        tag = uuid.uuid4().hex[:6]
        self.source, self.copy = f"source-{tag}", f"copy-{tag}"
        self.readers = f"readers-{tag}"
        create_topics(bootstrap, [self.source, self.copy], assignment)
        for topic in (self.source, self.copy):
            wait_led(bootstrap, topic)
        self.writers = [Writer("confluent"), Writer("own")]
        self.commits = {self.readers: Commits(), self.copy: Commits()}
        self.errors: list[str] = []
        self.given_up = 0
        self.seen: dict[tuple[int, int], bytes] = {}
        self._ends: dict[int, int] | None = None
        self._ended, self._drained = threading.Event(), threading.Event()
        self._tasks: list[Task] = []

    def __enter__(self) -> Self:
        self._tasks = [Task(self._write_confluent, self.writers[0]), Task(self._write_own, self.writers[1])]
        self._tasks += [Task(self._read) for _ in range(READERS)]
        self._tasks += [Copier(self._copy, f"{self.copy}-{number}") for number in range(COPIERS)]
        self._tasks += [Task(self._observe, group) for group in self.commits]
        self.wait_served()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._drained.set()
        until = time.monotonic() + LEAVE_S_MAX
        for task in self._tasks:
            task.join(max(0.0, until - time.monotonic()))

    # ---- what a test waits for

    def wait_served(self, partitions: range | set[int] = range(PARTITIONS), within_s: float = SERVED_S_MAX) -> float:
        """Wait until a record of each writer, sent after this call, is acknowledged in each of the partitions.

        Return the longest time since the call without an acknowledgement in a partition, in seconds.
        """
        since = time.monotonic()
        marks = {writer: (writer.sent, len(writer.acked)) for writer in self.writers}
        for writer, (sent, acked) in marks.items():
            missing = set(partitions)
            while missing:
                self._check()
                fresh, acked = writer.acked[acked:], len(writer.acked)
                missing -= {each.partition for each in fresh if each.number >= sent}
                assert time.monotonic() < since + within_s, (
                    f"{writer.name}: partitions {missing} are not served, {self.errors[-3:]}"
                )
                time.sleep(0.01)
        return max(writer.gap_s(since) for writer in self.writers)

    def finish(self) -> dict[int, int]:
        """End the writers, and wait until the groups have read and copied everything. Return the ends of the source."""
        self._ended.set()
        for task in self._tasks[: len(self.writers)]:
            task.end()
        self._ends = ends_of(self.bootstrap, self.source)
        deadline = time.monotonic() + HANG_S_MAX + DRAIN_S_MAX
        while not self._drained.is_set():
            self._check()
            found = {group: commits.known() for group, commits in self.commits.items()}
            assert time.monotonic() < deadline, f"{found} of {self._ends}; {self.errors[-40:]}"
            if all(each == self._ends for each in found.values()):
                self._drained.set()
            time.sleep(0.02)
        for task in self._tasks:
            task.end()
            if isinstance(task, Copier) and task.hangs:
                self._give_up(task)
        return self._ends

    def may_repeat(self, value: bytes) -> bool:
        """Whether a record may be in the log twice, since its client has begun a new producer epoch."""
        return self._has_kafka and any(
            value.startswith(writer.name.encode()) and writer.epoch_bumps for writer in self.writers
        )

    def _check(self) -> None:
        """Raise the error of a client that has failed, and replace copiers that hang."""
        for place, task in enumerate(self._tasks):
            task.check()
            if isinstance(task, Copier) and task.hangs:
                self._give_up(task)
                self._tasks[place] = Copier(self._copy, task.transactional_id)

    def _give_up(self, copier: Copier) -> None:
        """Leave a copier that hangs alone, and say where it hangs."""
        copier.is_given_up = True
        self.given_up += 1
        logger.warning("%s: hangs in %s", copier.transactional_id, copier.call)

    def _note(self, error: str) -> None:
        """Note an error that a client was given."""
        logger.info("%s", error)
        self.errors.append(error)

    # ---- the clients

    def _write_confluent(self, writer: Writer) -> None:
        producer = ck.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 1000 * 2 * DRAIN_S_MAX,
                **QUICK,
                "debug": "eos",
                "log_level": 7,
            },
            logger=BumpCounter(writer).logger(self.source),
        )

        def settled(error: ck.KafkaError | None, message: ck.Message) -> None:
            if error is not None:
                writer.failed.append(f"{message.value()}: {error}")
            else:
                writer.settle(int(message.value().split()[1]), message.partition(), message.offset())

        def send(number: int) -> None:
            key = b"%d" % (number % 50)
            producer.produce(self.source, writer.value(number), key, number % PARTITIONS, on_delivery=settled)
            producer.poll(0)

        writer.write(send, self._ended)
        assert producer.flush(DRAIN_S_MAX) == 0

    def _write_own(self, writer: Writer) -> None:
        producer = pykbroker.kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            acks="all",
            linger_ms=2,
            request_timeout_ms=3000,
            reconnect_backoff_max_ms=300,
        )

        def settled(number: int, metadata: Any) -> None:
            writer.settle(number, metadata.partition, metadata.offset)

        def failed(number: int, error: object) -> None:
            writer.failed.append(f"{number}: {error!r}")

        def send(number: int) -> None:
            key = b"%d" % (number % 50)
            sent = producer.send(self.source, writer.value(number), key, partition=number % PARTITIONS)
            sent.add_callback(settled, number).add_errback(failed, number)

        try:
            writer.write(send, self._ended)
            producer.flush(DRAIN_S_MAX)
        finally:
            producer.close(timeout=1)

    def _read(self) -> None:
        """Read as a member of a group, and commit after each batch. Each member reads on from what is committed."""
        commits = self.commits[self.readers]
        consumer = ck.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.readers,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                **QUICK,
                "socket.timeout.ms": COMMIT_MS_MAX,
            }
        )
        consumer.subscribe([self.source])
        try:
            while not self._drained.is_set():
                read: dict[int, int] = {}
                for message in consumer.consume(500, 0.1):
                    if message.error() is not None:
                        self._note(f"reader: {message.error()}")
                    else:
                        read[message.partition()] = message.offset() + 1
                        self._see(message.partition(), message.offset(), message.value() or b"")
                if read:
                    self._commit(consumer, read, commits)
        finally:
            leave(consumer)

    def _see(self, partition: int, offset: int, value: bytes) -> None:
        """Record what a reader has read. What is read twice must be the same."""
        assert self.seen.setdefault((partition, offset), value) == value, (partition, offset, value)

    def _commit(self, consumer: ck.Consumer, read: Mapping[int, int], commits: Commits) -> None:
        offsets = [ck.TopicPartition(self.source, index, offset) for index, offset in read.items()]
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=False)
        except ck.KafkaException as error:
            self._note(f"reader: commit: {error}")
        else:
            commits.learn({each.partition: each.offset for each in answers or () if each.error is None})

    def _copy(self, copier: Copier) -> None:
        """Copy the source in transactions as a member of a group."""
        settings = {**CLASSIC, **QUICK, "max.poll.interval.ms": POLL_MS_MAX}
        client = ConfluentKafka(self.bootstrap, self.source, self.copy, copier.transactional_id, settings)
        commits = self.commits[self.copy]
        try:
            while not self._drained.is_set() and not copier.is_given_up:
                copier.show()
                try:
                    if client.moved:
                        commits.learn(client.rewind())
                        copier.show()
                    records = client.poll()
                    if records and not client.moved:
                        self._transact(copier, client, records, commits)
                except client.errors as error:
                    if not copier.is_given_up:
                        self._note(f"{copier.transactional_id}: {error}")
                        copier.show()
                        client.recover(error)
        finally:
            client.close()

    @staticmethod
    def _transact(
        copier: Copier, client: ConfluentKafka, records: list[tuple[int, int, bytes]], commits: Commits
    ) -> None:
        offsets = {index: offset + 1 for index, offset, _ in records}
        client.begin()
        client.send(records)
        copier.show()
        client.send_offsets(offsets)
        copier.show()
        client.commit()
        commits.learn(offsets)

    def _observe(self, group: str) -> None:
        """Ask for the committed offsets of a group again and again: none is ever below one that is known already."""
        commits = self.commits[group]
        consumer = ck.Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, **QUICK})
        places = [ck.TopicPartition(self.source, index) for index in range(PARTITIONS)]
        try:
            while not self._drained.wait(0.1):
                known = commits.known()
                try:
                    answers = consumer.committed(places, CALL_S_MAX)
                except ck.KafkaException as error:
                    if error.args[0].code() not in MOVED:
                        self._note(f"observer of {group}: {error}")
                    continue
                found = {each.partition: each.offset for each in answers if each.error is None and each.offset >= 0}
                back = {
                    index: (offset, found[index]) for index, offset in known.items() if found.get(index, 0) < offset
                }
                assert not back, f"{group}: committed offsets went back: {back}"
                commits.learn(found)
        finally:
            consumer.close()


def create_topics(bootstrap: str, names: list[str], assignment: list[list[int]] | None) -> None:
    """Create topics of three replicas, and wait until all partitions have all replicas in sync."""
    placed: dict[str, Any] = {"replication_factor": 3} if assignment is None else {"replica_assignment": assignment}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, config={"min.insync.replicas": "2"}, **placed) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(CALL_S_MAX)


def prefer(bootstrap: str, topic: str) -> None:
    """Elect the first replica of each partition as its leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK})
    places = [ck.TopicPartition(topic, index) for index in range(PARTITIONS)]
    admin.elect_leaders(ck.ElectionType.PREFERRED, places).result(CALL_S_MAX)


def wait_led(bootstrap: str, topic: str) -> None:
    """Wait until the leaders of all partitions answer, and thus know that they lead."""
    deadline = time.monotonic() + CALL_S_MAX
    while True:
        try:
            ends_of(bootstrap, topic)
        except ck.KafkaException:
            if time.monotonic() > deadline:
                raise
        else:
            return


def ends_of(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the high watermark of each partition."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "ends", **QUICK})
    places = [ck.TopicPartition(topic, index) for index in range(PARTITIONS)]
    ends = {each.partition: consumer.get_watermark_offsets(each, CALL_S_MAX)[1] for each in places}
    consumer.close()
    return ends
