"""Moves of twelve partitions between two log directories under full produce load, with retention and DeleteRecords."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tools.bench import frames, log_dir_frames, volume
from tools.bench.peers import Broker, Peer, free_port, prepare_kafka
from tools.bench.row import Figure, Row, Stage
from tools.bench.rows.steps import scraped
from tools.broker_process import PYKBROKER

TOPIC, PARTITIONS = "moving", 12
VALUE_BYTES = 1024
AT_ONCE = 240
SEGMENT_BYTES = 100_000
RETENTION_BYTES = 20_000_000
FILL_S, ARRIVE_S_MAX = 8, 120
LOOK_S = 0.05
CONFIGS = {
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "retention.bytes": str(RETENTION_BYTES),
    "file.delete.delay.ms": "1000",
}
SETTINGS = ("log.retention.check.interval.ms=1000",)
DIRECTORIES = ("data", "data2")


def move(stage: Stage) -> Mapping[str, float] | None:
    """Measure the moved partitions and their time, the messages produced meanwhile, and the longest event-loop step.

    Raise RuntimeError if an acknowledged record is missing or has another offset.
    """
    if not stage.peer.durable:
        return None
    console = free_port()
    broker = with_two_directories(stage.peer, console).start(stage.directory())
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=CONFIGS)])[TOPIC].result()
        load = Load(broker)
        time.sleep(FILL_S)
        acknowledged, begun = sum(load.ends), time.monotonic()
        arrivals = watch(broker)
        seconds = time.monotonic() - begun
        rate = (sum(load.ends) - acknowledged) / seconds
        load.stop()
        load.check(broker)
        steps = scraped(console) if stage.peer.in_process else {}
    finally:
        broker.stop()
    return {"arrived": len(arrivals), "last": max(arrivals, default=ARRIVE_S_MAX), "rate": rate} | (
        {"longest": steps["loop_step_longest_seconds"] * 1000} if steps else {}
    )


def with_two_directories(peer: Peer, console: int) -> Peer:
    """Return the same kind of broker with two log directories, and with retention checks every second."""

    def command(directory: Path, port: int) -> list[str]:
        if not peer.in_process:
            overrides = [argument for one in SETTINGS for argument in ("--override", one)]
            return [*peer.command(directory, port), *overrides]
        log_dirs = ",".join(str(directory / name) for name in DIRECTORIES)
        sets = [argument for one in (*SETTINGS, f"log.dirs={log_dirs}") for argument in ("--set", one)]
        return [*PYKBROKER, "start", "--listen", f"127.0.0.1:{port}", "--console", f"127.0.0.1:{console}", *sets]

    prepare = peer.prepare if peer.in_process else partial(prepare_kafka, names=DIRECTORIES)
    return replace(peer, prepare=prepare, command=command)


class Load:
    """A producer that sends as fast as it can until it is stopped. The value of each record begins with its offset."""

    def __init__(self, broker: Broker) -> None:
        self.ends = [0] * PARTITIONS
        self._failed: list[KafkaError] = []
        self._stopped = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "batch.size": 16384,
                "linger.ms": 5,
                "queue.buffering.max.messages": volume.QUEUED_MAX,
                "log_level": 0,
                "on_delivery": self._delivered,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self._failed.append(error)
        elif partition is not None and offset is not None:
            self.ends[partition] = max(self.ends[partition], offset + 1)

    def _run(self) -> None:
        sent, padding = 0, bytes(VALUE_BYTES - 8)
        while not self._stopped.is_set():
            some = [{"value": (sent + number).to_bytes(8, "big") + padding} for number in range(AT_ONCE // PARTITIONS)]
            for partition in range(PARTITIONS):
                self._producer.produce_batch(TOPIC, some, partition)
            sent += len(some)
            while len(self._producer) > AT_ONCE * PARTITIONS:
                self._producer.poll(0.01)
            self._producer.poll(0)

    def stop(self) -> None:
        """Wait until all records are acknowledged; raise RuntimeError if one is not."""
        self._stopped.set()
        self._thread.join()
        left = self._producer.flush(volume.DRAIN_TIMEOUT_S)
        if left or self._failed:
            raise RuntimeError(f"{left} messages not acknowledged, {len(self._failed)} failed: {self._failed[:1]}")

    def check(self, broker: Broker) -> None:
        """Read all records.

        Raise RuntimeError if there is a gap after the log start offset, or if an acknowledged record is missing.
        """
        for partition in range(PARTITIONS):
            reading = volume.consumer(broker.bootstrap, [])
            low, high = reading.get_watermark_offsets(TopicPartition(TOPIC, partition), volume.DRAIN_TIMEOUT_S)
            if high != self.ends[partition]:
                raise RuntimeError(
                    f"{TOPIC}-{partition} ends at {high}, but records up to {self.ends[partition]} were acknowledged"
                )
            reading.assign([TopicPartition(TOPIC, partition, low)])
            while low < high:
                found = reading.consume(min(10_000, high - low), volume.DRAIN_TIMEOUT_S)
                offsets = [int.from_bytes((message.value() or b"")[:8], "big") for message in found]
                if not found or offsets != list(range(low, low + len(found))):
                    raise RuntimeError(f"{TOPIC}-{partition} lacks acknowledged records from offset {low} on")
                low += len(found)
            reading.close()


def watch(broker: Broker) -> list[float]:
    """Move each partition to the other directory and delete records meanwhile; return the seconds until each move
    ended.
    """
    arrivals: list[float] = []
    paths = [str(broker.directory / name) for name in DIRECTORIES]
    with frames.Caller(broker.port) as caller:
        before = places(caller)
        elsewhere = {path: [index for index, place in before.items() if place != path] for path in paths}
        begun = time.monotonic()
        reply = caller.call(log_dir_frames.alter_replica_log_dirs(TOPIC, elsewhere))
        if any(codes := log_dir_frames.alter_replica_log_dirs_errors(reply)):
            raise RuntimeError(f"moves were refused: {codes}")
        while len(arrivals) < PARTITIONS and time.monotonic() < begun + ARRIVE_S_MAX:
            now = places(caller)
            moved = sum(now.get(index) not in (None, place) for index, place in before.items())
            arrivals += [time.monotonic() - begun] * (moved - len(arrivals))
            delete_some(caller)
            time.sleep(LOOK_S)
    return arrivals


def places(caller: frames.Caller) -> dict[int, str]:
    """Map each partition to its directory."""
    return log_dir_frames.places(caller.call(log_dir_frames.describe_log_dirs()), TOPIC)


def delete_some(caller: frames.Caller) -> None:
    """Delete the records of one partition, except the newest megabyte."""
    partition = random.randrange(PARTITIONS)
    end = frames.list_offsets_offset(caller.call(frames.list_offsets(TOPIC, partition)))
    caller.call(log_dir_frames.delete_records(TOPIC, partition, max(0, end - (1 << 20) // VALUE_BYTES)))


FIGURES = {
    "arrived": Figure("arrived of 12", True, 0),
    "last": Figure("s until the last has arrived"),
    "rate": Figure("records/s produced meanwhile", True, 0),
    "longest": Figure("longest step of the loop, ms", digits=1),
}
ROWS = (Row(f"{PARTITIONS} partitions move under load, segments of {SEGMENT_BYTES // 1000} kB", FIGURES, move),)
