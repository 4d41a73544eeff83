"""A complete broker in this process on a temporary directory, and a client that sends and receives frames."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from pykbroker import broker
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.settings import Serving, Settings
from wire.apis import APIS
from wire.declare import Request, Response
from wire.frame import decode_response, encode_request
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from wire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from wire.records.builder import BatchBuilder

R = TypeVar("R", bound=Response)
FREE_PORT = ListenerSettings(address=Address("127.0.0.1", 0))


def batch(*values: bytes, **fields: Any) -> bytes:
    """Return a record batch with a record for each value, all with the key "k"."""
    builder = BatchBuilder(**fields)
    for value in values:
        builder.append(b"k", value, timestamp=1_700_000_000_000)
    return builder.build()


class Client:
    """A client with one connection. It uses consecutive correlation ids and asserts that responses arrive in order."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._sent: list[tuple[int, type[Response], int]] = []
        self._number = 0
        self._data = b""

    async def send(self, request: Request[Any], version: int, client_id: str | None = "test") -> None:
        self._number += 1
        self._sent.append((self._number, APIS[request.key].response, version))
        await self.stream.send_all(encode_request(request, version, self._number, client_id))

    async def receive(self) -> Any:
        number, response_class, version = self._sent.pop(0)
        size = struct.unpack(">i", await self._exactly(4))[0]
        correlation_id, response = decode_response(response_class, version, await self._exactly(size))
        assert correlation_id == number
        return response

    async def call(self, request: Request[Any], version: int, client_id: str | None = "test") -> Any:
        await self.send(request, version, client_id)
        return await self.receive()

    async def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            chunk = await self.stream.receive_some()
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            self._data += chunk
        data, self._data = self._data[:size], self._data[size:]
        return data

    async def closed(self) -> bool:
        """Whether the broker closes the connection without another response."""
        return self._data + bytes(await self.stream.receive_some()) == b""

    async def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Create a topic and return its id."""
        response = await self.call(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=-1,
                        configs=[
                            CreatableTopicConfig(name=key.replace("_", "."), value=value)
                            for key, value in configs.items()
                        ],
                    )
                ]
            ),
            7,
        )
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        topic_id: bytes = response.topics[0].topic_id
        return topic_id

    async def produce(
        self, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, version: int = 11
    ) -> PartitionProduceResponse:
        """Produce to one partition and return its result."""
        response = await self.call(produce_request(topic, records, partition, acks), version)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    async def fetch(
        self, topic: str, offset: int, *, partition: int = 0, version: int = 12, **fields: Any
    ) -> PartitionData:
        """Fetch from one partition and return its result."""
        response = await self.call(fetch_request(topic, offset, partition, **fields), version)
        answer: PartitionData = response.responses[0].partitions[0]
        return answer


def produce_request(topic: str, records: bytes | None, partition: int = 0, acks: int = -1) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
        ],
    )


def fetch_request(
    topic: str, offset: int, partition: int = 0, *, bytes_max: int = 1 << 20, **fields: Any
) -> FetchRequest:
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    return FetchRequest(
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)],
            )
        ],
        **fields,
    )


class LocalBroker:
    """A running broker, and the connections to it."""

    def __init__(self, serving: Serving, stop: trio.Event) -> None:
        self.serving, self.stop = serving, stop
        self._streams: list[trio.SocketStream] = []

    async def connect(self, listener: str | None = None) -> Client:
        """Connect to the named listener, or to the first one."""
        return await self.connect_to(self.serving.listeners[listener or next(iter(self.serving.listeners))])

    async def connect_to(self, address: Address) -> Client:
        """Connect to any of the broker's addresses."""
        self._streams.append(await trio.open_tcp_stream(*address))
        return Client(self._streams[-1])

    async def disconnect(self) -> None:
        """Close all connections, also in a task that is cancelled."""
        with trio.CancelScope(shield=True):
            for stream in self._streams:
                await stream.aclose()


def settings(
    directory: Path,
    *,
    topics: Iterable[tuple[Any, ...]] = (),
    listeners: tuple[ListenerSettings, ...] = (FREE_PORT,),
    **configs: str,
) -> Settings:
    texts = {key.replace("_", "."): value for key, value in configs.items()}
    return Settings(
        BrokerConfig.from_mapping(texts),
        (str(directory),),
        listeners=listeners,
        memory=True,
        topics=tuple(NewTopic(*topic) for topic in topics),
    )


@asynccontextmanager
async def serving(directory: Path, **options: Any) -> AsyncIterator[LocalBroker]:
    """Run a broker on `directory` during the block, and shut it down after it."""
    async with serving_with(settings(directory, **options)) as local_broker:
        yield local_broker


@asynccontextmanager
async def serving_with(chosen: Settings) -> AsyncIterator[LocalBroker]:
    """Run a broker with these settings during the block, and shut it down after it."""
    stop, ready = trio.Event(), trio.Event()
    served: list[Serving] = []

    def note(serving: Serving) -> None:
        served.append(serving)
        ready.set()

    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await broker.serve(chosen, note, stop=stop)

        nursery.start_soon(run)
        await ready.wait()
        local_broker = LocalBroker(served[0], stop)
        try:
            yield local_broker
        finally:
            await local_broker.disconnect()
            stop.set()


@pytest.fixture
async def local_broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with serving(tmp_path, topics=(NewTopic("a", 4),)) as running:
        yield running


@pytest.fixture
async def client(local_broker: LocalBroker) -> Client:
    return await local_broker.connect()
