"""A broker in this process without sockets, and the checks after each input.

Every request is answered in order with a response that decodes, or the connection ends. No traceback is logged. The
memory is proportional to the input. After the peer has disconnected, no task is left. From time to time another
connection, the canary, produces and consumes. At the end the log is valid and has all records of the canary.
"""

from __future__ import annotations

import logging
import random
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from pykbroker import broker
from pykbroker.cli.logs.dumping import dumped
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.table import ONE_BROKER
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.settings import Settings
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.worker import InlineWorkers
from pykbroker.world.disk import FileSlice
from pykbroker.world.net import Accept, C, ConnectionMachine, NetStatistics, Peer, Pump, Tls
from pykbroker.world.system import wall_ms
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.world import World
from tools.fuzz.mutate import SIZE_BYTES, api_of, frames
from tools.fuzz.values import TOPICS
from wire.api import ApiKey
from wire.apis import APIS
from wire.declare import Request
from wire.errors import DecodeError
from wire.frame import decode_request, decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.join_group import JoinGroupRequest
from wire.messages.metadata import MetadataRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.messages.sync_group import SyncGroupRequest
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder
from wire.records.record import records
from wire.sentinels import NO_TIMESTAMP

CANARY = "canary"
COORDINATORS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
PEER = Peer("10.0.0.7", 50_000, "10.0.0.1", 9092)
STEPS_MAX = 5000
"""The number of passes of the event loop within which a request is answered, unless it is a Fetch, and a connection
closed.
"""
STEPS_QUIET = 500
"""The number of passes of the event loop after which a coordinator has loaded its log."""
MEMORY_FACTOR, MEMORY_BYTES = 64, 1 << 20
RECORD_BYTES_MAX, READ_BYTES_MAX = 1 << 20, 64 << 20
STAYING = (JoinGroupRequest, SyncGroupRequest)
GROUP_KEY, TRANSACTION_KEY = 0, 1


class Finding(AssertionError):
    """An error for a check that failed."""


class NoNet:
    """A network without peers that matches `world.net.Net`. Connections come only from `accept`."""

    def __init__(self) -> None:
        self.host, self.port = PEER.local_host, PEER.local_port
        self.accept: Accept | None = None

    def bind(self, *place: Any) -> NoNet:
        return self

    def listen(self, accept: Accept, tls: Tls | None = None) -> None:
        self.accept = accept

    def close(self) -> None: ...

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[[Peer, Pump], C],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
    ) -> C:
        """Refuse the connection, since no peer listens."""
        raise ConnectionRefusedError(host, port)

    async def run(self) -> None:
        await trio.sleep_forever()

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Resolve every host to 127.0.0.1."""
        return ("127.0.0.1",)

    def statistics(self) -> NetStatistics:
        return NetStatistics(0, 0, 0, 0, 0)


class Errors(logging.Handler):
    """A log handler that keeps the errors of the broker."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep tracebacks and messages of level ERROR."""
        self.found.append(logging.Formatter("%(message)s").format(record))


class FuzzedPeer:
    """A connection of a client without a socket. `data` has all bytes that the broker sent."""

    def __init__(self, accept: Accept) -> None:
        self.data = b""
        self._rest, self._gone = b"", False
        connection = accept(PEER, self)
        assert connection is not None
        self.connection: ConnectionMachine = connection

    def flush(self) -> None:
        """Do nothing, since `turn` sends the output."""

    def end_when_silent(self) -> None:
        """Do nothing, since the client never falls silent."""

    def serve_last(self, *, last: bool) -> None:
        """Do nothing, since there is one connection."""

    def close(self) -> None:
        """Close both ends of the connection."""
        if not self._gone:
            self._gone = True
            self._take()
            self.connection.closed()

    def send(self, data: bytes) -> None:
        """Send bytes from the peer to the broker."""
        self._rest += data
        self.turn()

    def turn(self) -> None:
        """Move bytes between the client and the connection once, as the network does."""
        connection = self.connection
        while not self._gone:
            self._take()
            if connection.ended:
                self.close()
            elif connection.wants_turn:
                connection.resume()
            elif self._rest and connection.wants_input:
                self._give()
            else:
                return

    def _give(self) -> None:
        connection = self.connection
        room = connection.room
        if room is None:
            data, self._rest = self._rest[:65_536], self._rest[65_536:]
            connection.received(data)
        else:
            size = min(len(room), len(self._rest))
            room[:size] = self._rest[:size]
            self._rest = self._rest[size:]
            connection.filled(size)

    def _take(self) -> None:
        out = self.connection.out
        self.data += b"".join(map(bytes_of, out))
        out.clear()

    def turned_and_ended(self) -> bool:
        """Move bytes once more; return whether the connection has ended."""
        self.turn()
        return self._gone

    @property
    def ended(self) -> bool:
        return self._gone


class FuzzedBroker:
    """A running broker and its connections."""

    def __init__(self, accept: Accept, errors: Errors) -> None:
        self._accept, self._errors = accept, errors
        self._canary = FuzzedPeer(accept)
        self._number = self.canary_count = 0
        self._tasks = living()

    async def feed(self, data: bytes) -> None:
        """Send the requests of one peer and disconnect it; raise Finding if a check fails."""
        peer = FuzzedPeer(self._accept)
        peer.send(data)
        await until(lambda: peer.turned_and_ended() or answered(data, peer.data) or parks(data))
        check_answers(data, peer.data, ended=peer.ended)
        peer.close()
        if stays(data):
            self._tasks = max(self._tasks, living())
        elif not await until(lambda: living() <= self._tasks):
            raise Finding(f"{living() - self._tasks} tasks are left")
        if self._errors.found:
            raise Finding("; ".join(self._errors.found))

    async def feed_measured(self, data: bytes) -> None:
        """Send the requests as `feed` does, and check the memory. tracemalloc must be running.

        Raise Finding if a check fails.
        """
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        await self.feed(data)
        used = tracemalloc.get_traced_memory()[1] - before
        if used > MEMORY_FACTOR * len(data) + MEMORY_BYTES:
            raise Finding(f"{used} bytes of memory for {len(data)} bytes")

    async def call(self, request: Request[Any], version: int) -> Any:
        """Send a request on the connection of the canary; return the response."""
        self._number += 1
        canary = self._canary
        canary.data = b""
        canary.send(encode_request(request, version, self._number, CANARY))
        if not await until(lambda: canary.turned_and_ended() or len(frames(canary.data)) == 1) or canary.ended:
            raise Finding("another connection got no response")
        return decode_response(APIS[ApiKey(request.key)].response, version, frames(canary.data)[0])[1]

    async def check_canary(self) -> None:
        """Produce and consume a record as the canary; raise Finding if one of the requests fails."""
        builder = BatchBuilder()
        builder.append(None, str(self.canary_count).encode(), (), wall_ms())
        partition = PartitionProduceData(index=0, records=builder.build())
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=CANARY, partition_data=[partition])]
        )
        written = (await self.call(request, 11)).responses[0].partition_responses[0]
        if (written.error_code, written.base_offset) != (0, self.canary_count):
            raise Finding(f"another connection produced at offset {self.canary_count}, and got {written}")
        self.canary_count += 1
        read = await self.canary_values(self.canary_count - 1)
        if read != [str(self.canary_count - 1).encode()]:
            raise Finding(f"another connection produced at offset {self.canary_count - 1}, and read {read}")

    async def canary_values(self, offset: int) -> list[bytes | None]:
        """Return all values that the canary produced, from an offset on."""
        found: list[bytes | None] = []
        while True:
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                topics=[
                    FetchTopic(
                        topic=CANARY, partitions=[FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)]
                    )
                ],
            )
            answer = (await self.call(request, 12)).responses[0].partitions[0]
            if answer.error_code:
                raise Finding(f"another connection fetched at offset {offset}, and got {answer}")
            values = [
                record.value for batch in batches(answer.records or b"") for record in records(batch, RECORD_BYTES_MAX)
            ]
            if not values:
                return found
            found, offset = found + values, offset + len(values)

    async def settle(self) -> None:
        """Create the topics of the coordinators, so that no input starts their tasks."""
        for key_type in (GROUP_KEY, TRANSACTION_KEY):
            for _ in range(STEPS_MAX):
                if not (await self.call(FindCoordinatorRequest(key_="mine", key_type=key_type), 1)).error_code:
                    break
        for _ in range(STEPS_QUIET):
            await trio.lowlevel.checkpoint()
        self._tasks = living()

    async def served(self) -> list[tuple[ApiKey, range]]:
        """Return every API with the advertised versions that this code can encode."""
        answer = await self.call(ApiVersionsRequest(client_software_name="f", client_software_version="1"), 4)
        return [
            (key, range(max(api.min_version, APIS[key].accepted.first), api.max_version + 1))
            for api in answer.api_keys
            for key in (ApiKey(api.api_key),)
        ]

    async def topic_ids(self) -> tuple[bytes, ...]:
        """Return the ids of the topics that the fuzzer may change."""
        answer = await self.call(MetadataRequest(topics=None), 12)
        return tuple(topic.topic_id for topic in answer.topics if topic.name in TOPICS)


@asynccontextmanager
async def fuzzed_broker(directory: Path, seed: int) -> AsyncIterator[FuzzedBroker]:
    """Run a broker with `TOPICS` and the topic of the canary. Check all logs at the end.

    Raise Finding if a check fails.
    """
    net, ready, stop, errors = NoNet(), trio.Event(), trio.Event(), Errors()
    off_loop = InlineOffLoop()
    disk = SystemDisk(str(directory), off_loop, durable=False)
    world = World((disk,), net, wall_ms, time.perf_counter_ns, off_loop, InlineWorkers(off_loop), random.Random(seed))
    config = BrokerConfig.from_mapping({**ONE_BROKER, **COORDINATORS, "log.dirs": str(directory)})
    topics = tuple(NewTopic(name, 2) for name in (*TOPICS, CANARY))
    settings = Settings(config, (str(directory),), memory=True, topics=topics)
    logger = logging.getLogger("pykbroker")
    level = logger.level
    logger.addHandler(errors)
    logger.setLevel(logging.ERROR)
    try:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await broker.serve(settings, lambda serving: ready.set(), world=world, stop=stop)

            nursery.start_soon(run)
            await ready.wait()
            await until(lambda: net.accept is not None)
            assert net.accept is not None
            running = FuzzedBroker(net.accept, errors)
            await running.settle()
            yield running
            if await running.canary_values(0) != [str(number).encode() for number in range(running.canary_count)]:
                raise Finding("not all records of another connection are in the log")
            stop.set()
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
    check_logs(directory)


def check_logs(directory: Path) -> None:
    """Check all segments and their records; raise Damaged or Finding if one is invalid."""
    for path in directory.rglob("*.log"):
        data = memoryview(path.read_bytes())
        for _ in dumped(str(path), data, deep=False):
            pass
        for batch in batches(data):
            check_records(path.parent.name, batch)


def check_records(log: str, batch: Batch) -> None:
    """Check that the record count and the largest timestamp match the batch header; raise Finding if not."""
    try:
        youngest = max((record.timestamp for record in records(batch, READ_BYTES_MAX)), default=batch.max_timestamp)
    except DecodeError as error:
        raise Finding(f"{log}: the batch at offset {batch.base_offset} cannot be read: {error}") from None
    if batch.count and max(youngest, NO_TIMESTAMP) != batch.max_timestamp:
        raise Finding(
            f"{log}: offset {batch.base_offset}: the largest timestamp is {youngest}, not {batch.max_timestamp}"
        )


def living() -> int:
    """Return the number of tasks of this event loop."""
    return trio.lowlevel.current_statistics().tasks_living


async def until(condition: Callable[[], Any]) -> bool:
    """Whether the condition becomes true within `STEPS_MAX` passes of the event loop."""
    for _ in range(STEPS_MAX):
        if condition():
            return True
        await trio.lowlevel.checkpoint()
    return False


# ---- the expected responses


def questions(data: bytes) -> list[bytes]:
    """Return the complete requests that expect a response: all except Produce with acks=0."""
    return [frame for frame in frames(data) if getattr(parsed(frame), "acks", 1)]


def parsed(frame: bytes) -> Request[Any] | None:
    """Return the decoded request, or None if it is invalid."""
    try:
        return decode_request(frame)[1]
    except DecodeError:
        return None


def answered(asked: bytes, got: bytes) -> bool:
    """Whether every complete request has its response."""
    return len(frames(got)) >= len(questions(asked))


def parks(asked: bytes) -> bool:
    """Whether a request may wait: it is a Fetch, or waits for other members of a group."""
    return any(isinstance(parsed(frame), (FetchRequest, *STAYING)) for frame in frames(asked))


def stays(asked: bytes) -> bool:
    """Whether a request may wait after its peer has disconnected. A group member stays until its session times out."""
    return any(isinstance(parsed(frame), STAYING) for frame in frames(asked))


def check_answers(asked: bytes, got: bytes, *, ended: bool) -> None:
    """Check that responses decode, are in order, and are complete unless the connection has ended.

    Raise Finding if a response is invalid, out of order or missing.
    """
    requests, replies = questions(asked), frames(got)
    if sum(map(len, replies)) + SIZE_BYTES * len(replies) != len(got):
        raise Finding("an incomplete response")
    if not ended and len(replies) < len(requests) and not parks(asked):
        raise Finding(f"{len(requests)} requests, {len(replies)} responses")
    if len(replies) > len(requests):
        raise Finding(f"{len(replies)} responses to {len(requests)} requests")
    for request, reply in zip(requests, replies, strict=False):
        check_answer(bytes(SIZE_BYTES) + request, reply)


def check_answer(request: bytes, reply: bytes) -> None:
    """Check that a frame is the response to this request.

    Raise Finding if the frame is invalid or has another correlation id.
    """
    asked = api_of(request)
    if asked is None:
        raise Finding("a response without a request")
    key, version, correlation_id = asked
    if key == ApiKey.API_VERSIONS and version not in APIS[ApiKey(key)].accepted:
        version = 0
    try:
        answered_id, _ = decode_response(APIS[ApiKey(key)].response, version, reply)
    except DecodeError as error:
        raise Finding(f"the response to {ApiKey(key).name} version {version} does not decode: {error}") from None
    if answered_id != correlation_id:
        raise Finding(f"the response to correlation id {correlation_id} has {answered_id}")


def bytes_of(part: Any) -> bytes:
    """Return the bytes that would be sent for a reply."""
    if isinstance(part, FileSlice):
        return bytes(part.file.read_nowait(part.offset, part.size))
    return bytes(part)
