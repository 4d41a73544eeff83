"""Scenarios for every Python client. The file of each client defines how the client does each step.

Such a file has a class that implements `Client` for its library, and a subclass of `Scenarios` that names this class.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import pytest

from tools.broker_process import BrokerProcess

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DELIVERIES: dict[str, dict[str, Any]] = {
    "acks=0": {"acks": "0"},
    "acks=1": {"acks": "1"},
    "acks=all": {"acks": "all"},
    "idempotent": {"acks": "all", "idempotent": True},
}
COMBINATIONS = (
    *(("none", delivery) for delivery in DELIVERIES),
    ("gzip", "acks=all"),
    ("snappy", "idempotent"),
    ("lz4", "acks=1"),
    ("zstd", "acks=0"),
)
"""Codecs with deliveries, so that each occurs: the broker stores a batch in the same way for each delivery."""
PATIENCE_S = 15
EVENTUALLY_S_MAX = 60
"""The time for a condition that comes true in the background. Only a failure waits for so long."""
KILLS = 3


@dataclass(frozen=True)
class Message:
    """A record that a client sends or reads: key, value, headers in order, timestamp in ms."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


Reading = Generator[tuple[int, Message], None, None]
"""Messages with their offsets, as a client reads them."""


class Client(Protocol):
    """A client library connected to one broker.

    A call closes its own resources. `close` closes all remaining resources.
    """

    bootstrap: str

    def __init__(self, bootstrap: str) -> None: ...

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}, replicas: int = 1
    ) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def topics(self) -> Mapping[str, int]:
        """Return the number of partitions of each topic."""

    def topic_id(self, name: str) -> str | None:
        """Return the topic id in the library's own form, or None if the library has none."""

    def send(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Send all messages through one producer; return their offsets (-1 with acks=0). Raise the first failure."""

    def read(self, topic: str, partition: int, offset: int, *, wait_ms: int = 20) -> Reading:
        """Yield (offset, message) endlessly from `offset` on. An offset out of range resets to the earliest offset.

        Raise TimeoutError if no message arrives. `wait_ms` is the time that the broker may delay an empty Fetch.
        """

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the log start offset and the log end offset of a partition."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """Return the offset of the first message at or after a timestamp, or None."""

    @staticmethod
    def error_code(error: BaseException) -> int | None:
        """Return Kafka's error code in an exception of this library."""

    def close(self) -> None: ...


def messages(count: int, partitions: int = 2, value_bytes: int = 40) -> list[Message]:
    """Return compressible messages one second apart, round robin over the partitions. The first is a minute old."""
    start_ms = int(time.time() * 1000) - 60_000
    return [
        Message(
            index % partitions,
            f"key-{index:05}".encode(),
            f"value-{index:05}-".encode().ljust(value_bytes, b"x"),
            (("index", str(index).encode()), ("ünïcode", b"\0\xff")) if index % 3 == 0 else (),
            start_ms + index * 10,
        )
        for index in range(count)
    ]


def take(reading: Reading, count: int) -> list[tuple[int, Message]]:
    """Return the next `count` messages; close the reader, whose client may hold a connection."""
    with contextlib.closing(reading):
        return list(itertools.islice(reading, count))


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until `condition` is true. It may raise exceptions until the broker or the client has caught up."""
    deadline = time.monotonic() + EVENTUALLY_S_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            if condition():
                return
        time.sleep(0.02)
    assert condition()


def eventually_equal(read: Callable[[], object], expected: object) -> None:
    """Wait until `read` returns the expected value."""
    eventually(lambda: read() == expected)


class Scenarios:
    """Scenarios that pytest collects for each subclass. A subclass names the `Client` of its library."""

    library: ClassVar[type[Client]]
    codecs: ClassVar[Sequence[str]] = CODECS

    @pytest.fixture
    def client(self, bootstrap: str) -> Iterator[Client]:
        client = self.library(bootstrap)
        yield client
        client.close()

    @pytest.fixture
    def topic(self, client: Client) -> str:
        """Return a topic with two partitions that are served. Kafka may serve them some time after CreateTopics."""
        name = f"topic-{uuid.uuid4().hex}"
        client.create_topic(name, 2)
        eventually(lambda: client.bounds(name, 0) == client.bounds(name, 1) == (0, 0))
        return name

    @contextlib.contextmanager
    def refused(self, code: int) -> Iterator[None]:
        """Assert that the broker refuses the call in the block with `code`."""
        with pytest.raises(Exception) as caught:  # noqa: PT011
            yield
        assert self.library.error_code(caught.value) == code, repr(caught.value)

    def check_log(self, client: Client, topic: str, sent: Sequence[Message]) -> None:
        """Check that the partitions hold exactly the sent messages, in order."""
        logs: dict[int, list[Message]] = {}
        for message in sent:
            logs.setdefault(message.partition, []).append(message)
        eventually(lambda: all(client.bounds(topic, partition) == (0, len(log)) for partition, log in logs.items()))
        for partition, log in logs.items():
            assert take(client.read(topic, partition, 0), len(log)) == list(enumerate(log))

    # ---- topics

    def test_a_topic_is_created_listed_and_deleted(self, client: Client) -> None:
        name = f"topic-{uuid.uuid4().hex}"
        client.create_topic(name, 3)
        eventually(lambda: client.topics()[name] == 3)
        client.delete_topic(name)
        eventually(lambda: name not in client.topics())

    def test_a_topic_created_again_has_a_new_id_and_is_empty(self, client: Client, topic: str) -> None:
        first = client.topic_id(topic)
        client.send(topic, messages(10))
        client.delete_topic(topic)
        eventually(lambda: topic not in client.topics())
        client.create_topic(topic, 2)
        eventually(lambda: client.bounds(topic, 0) == (0, 0))
        assert first is None or client.topic_id(topic) != first

    def test_invalid_topics_are_refused_with_kafkas_error_codes(self, client: Client, topic: str) -> None:
        with self.refused(36):  # TOPIC_ALREADY_EXISTS
            client.create_topic(topic)
        with self.refused(17):  # INVALID_TOPIC_EXCEPTION
            client.create_topic("no spaces")
        with self.refused(37):  # INVALID_PARTITIONS
            client.create_topic(f"topic-{uuid.uuid4().hex}", 0)
        with self.refused(38):  # INVALID_REPLICATION_FACTOR
            client.create_topic(f"topic-{uuid.uuid4().hex}", replicas=3)
        with self.refused(40):  # INVALID_CONFIG
            client.create_topic(f"topic-{uuid.uuid4().hex}", configs={"retention.ms": "soon"})
        with self.refused(3):  # UNKNOWN_TOPIC_OR_PARTITION
            client.delete_topic(f"topic-{uuid.uuid4().hex}")

    def test_a_topic_is_auto_created_by_its_first_message(self, client: Client) -> None:
        name = f"topic-{uuid.uuid4().hex}"
        sent = messages(5, partitions=1)
        assert client.send(name, sent) == [0, 1, 2, 3, 4]
        eventually(lambda: client.topics()[name] == 1)
        self.check_log(client, name, sent)

    # ---- messages

    @pytest.mark.parametrize(("codec", "delivery"), COMBINATIONS)
    def test_messages_are_read_unchanged(self, client: Client, topic: str, codec: str, delivery: str) -> None:
        if codec not in self.codecs:
            pytest.skip(f"this client has no {codec}")
        sent = messages(100)
        offsets = client.send(topic, sent, codec=codec, **DELIVERIES[delivery])
        if delivery != "acks=0":
            assert offsets == [index // 2 for index in range(100)]
        self.check_log(client, topic, sent)

    def test_null_and_empty_values_are_distinguished(self, client: Client, topic: str) -> None:
        now_ms = int(time.time() * 1000)
        sent = [
            Message(0, key, value, headers, now_ms - age_ms)
            for key, value, headers, age_ms in (
                (None, b"value", (), 0),
                (b"key", None, (), 0),
                (None, b"", (), 5_000),
                (b"", b"value", (("", b""), ("again", b"1"), ("again", b"2")), 1_000),
                ("schlüssel".encode(), b"\0" * 10, (("größe", b"\xff\xfe"),), 60_000),
            )
        ]
        client.send(topic, sent)
        self.check_log(client, topic, sent)

    def test_messages_of_a_megabyte_are_read_unchanged(self, client: Client, topic: str) -> None:
        noise = random.Random(1)
        sent = [replace(message, value=noise.randbytes(1_000_000)) for message in messages(4)]
        client.send(topic, sent)
        self.check_log(client, topic, sent)

    def test_a_message_above_max_message_bytes_is_refused(self, client: Client, topic: str) -> None:
        large = replace(messages(1)[0], value=random.Random(1).randbytes(3_000_000))
        with self.refused(10):  # MESSAGE_TOO_LARGE
            client.send(topic, [large])
        assert client.bounds(topic, 0) == (0, 0)
        roomy = f"topic-{uuid.uuid4().hex}"
        client.create_topic(roomy, 1, {"max.message.bytes": "4000000"})
        client.send(roomy, [large, large])
        self.check_log(client, roomy, [large, large])

    @pytest.mark.parametrize("compression", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_compression_type_of_a_topic_recompresses_batches(self, client: Client, compression: str) -> None:
        name = f"topic-{uuid.uuid4().hex}"
        client.create_topic(name, 2, {"compression.type": compression})
        sent = messages(200)
        client.send(name, sent[:100], codec="none", idempotent=True)
        client.send(name, sent[100:], codec="gzip")
        self.check_log(client, name, sent)

    def test_with_log_append_time_messages_have_the_time_of_the_broker(self, client: Client) -> None:
        name = f"topic-{uuid.uuid4().hex}"
        client.create_topic(name, 1, {"message.timestamp.type": "LogAppendTime"})
        sent = messages(10, partitions=1)
        client.send(name, sent)
        got = [message for _, message in take(client.read(name, 0, 0), 10)]
        assert [message.value for message in got] == [message.value for message in sent]
        assert all(message.timestamp_ms > sent[-1].timestamp_ms + 1_000 for message in got)

    # ---- offsets

    def test_reading_may_start_at_any_offset(self, client: Client, topic: str) -> None:
        sent = [message for message in messages(200) if message.partition == 0]
        client.send(topic, sent, codec="lz4")
        for offset in (0, 1, 42, 99):
            assert take(client.read(topic, 0, offset), 1) == [(offset, sent[offset])]

    def test_an_offset_out_of_range_resets_to_the_earliest(self, client: Client, topic: str) -> None:
        sent = messages(10)
        client.send(topic, sent)
        assert take(client.read(topic, 0, 1_000_000), 1) == [(0, sent[0])]

    def test_first_and_last_offsets_and_offsets_by_timestamp_are_found(self, client: Client, topic: str) -> None:
        assert client.bounds(topic, 0) == (0, 0)
        assert client.offset_at(topic, 0, 0) is None
        sent = messages(100)
        client.send(topic, sent)
        assert client.bounds(topic, 1) == (0, 50)
        first_ms = sent[0].timestamp_ms
        assert client.offset_at(topic, 0, 0) == 0
        assert client.offset_at(topic, 0, first_ms + 201) == 11
        assert client.offset_at(topic, 0, sent[98].timestamp_ms) == 49
        assert client.offset_at(topic, 0, sent[98].timestamp_ms + 1) is None

    def test_an_append_completes_a_waiting_fetch(self, client: Client, topic: str) -> None:
        """The broker may delay a Fetch longer than the reader waits, so only an append can deliver the
        second message.
        """
        sent = [replace(message, partition=0) for message in messages(2)]
        client.send(topic, sent[:1])
        got: list[tuple[int, Message]] = []
        first = threading.Event()

        def follow() -> None:
            reader = self.library(client.bootstrap)
            reading = reader.read(topic, 0, 0, wait_ms=4 * PATIENCE_S * 1000)
            got.append(next(reading))
            first.set()
            got.append(next(reading))
            take(reading, 0)
            reader.close()

        thread = threading.Thread(target=follow)
        thread.start()
        assert first.wait(PATIENCE_S)
        client.send(topic, sent[1:])
        thread.join(2 * PATIENCE_S)
        assert got == list(enumerate(sent))

    # ---- crashes

    def test_acknowledged_messages_survive_a_kill_of_the_broker(self, broker: BrokerProcess) -> None:
        client = self.library(broker.address)
        client.create_topic("before", 2)
        sent = messages(1_000)
        for start, codec in zip(range(0, 1_000, 200), self.codecs, strict=False):
            client.send("before", sent[start : start + 200], codec=codec, idempotent=start % 400 == 0)
        sent = sent[: 200 * len(self.codecs)]
        client.close()
        broker.kill()
        broker.restart()
        client = self.library(broker.address)
        self.check_log(client, "before", sent)
        more = messages(10)
        assert client.send("before", more)[0] == len(sent) // 2
        self.check_log(client, "before", sent + more)
        client.close()

    def test_an_idempotent_producer_loses_and_repeats_no_message_while_the_broker_is_killed(
        self, broker: BrokerProcess
    ) -> None:
        """The producer continues while the broker is killed and restarted several times."""
        client = self.library(broker.address)
        client.create_topic("under-fire", 2)
        sent = messages(KILLS * 1_000)

        def under_fire() -> Iterator[Message]:
            for index, message in enumerate(sent):
                if index % 1_000 == 500:
                    broker.restart()
                yield message

        offsets = client.send("under-fire", under_fire(), idempotent=True)
        assert offsets == [index // 2 for index in range(len(sent))]
        self.check_log(client, "under-fire", sent)
        client.close()
