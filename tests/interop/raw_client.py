"""A socket client that sends exactly the given bytes, for requests that no client library sends."""

from __future__ import annotations

import contextlib
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from wire.declare import Buffer, Request, Response
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, CreateTopicsResponse
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from wire.records.batch import Batch, batches
from wire.records.record import Record, records

PATIENCE_S = 15
EVERYTHING = 1 << 30

R = TypeVar("R", bound=Response)


class RawClient:
    """A connection. Methods raise ConnectionError if the broker closes it, and TimeoutError if no response arrives in
    time.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.name = "{}:{}".format(*self.socket.getsockname())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, response: type[R], request: Request[Any], version: int) -> R:
        """Send a request; return its response."""
        self.socket.sendall(encode_request(request, version, 1, "raw"))
        return decode_response(response, version, self.frame())[1]

    def frame(self) -> bytes:
        """Return the next frame without its length prefix."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("closed")
            data += more
        return data

    def is_closed(self) -> bool:
        """Whether the broker closes the connection without a response; raise TimeoutError if it stays open."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True

    def create_topic(self, configs: Mapping[str, str] = {}) -> str:
        """Create a topic with one partition; return its name once the partition is served."""
        name = f"raw-{uuid.uuid4().hex}"
        settings = [CreatableTopicConfig(key, value) for key, value in configs.items()]
        topics = [CreatableTopic(name, 1, 1, [], settings)]
        answer = self.call(CreateTopicsResponse, CreateTopicsRequest(topics, PATIENCE_S * 1000), 5)
        assert answer.topics[0].error_code == 0, answer
        self._wait_until_served(name)
        return name

    def _wait_until_served(self, topic: str) -> None:
        """Wait until the partition is served, since Kafka answers CreateTopics earlier."""
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])])
        while self.call(ListOffsetsResponse, request, 5).topics[0].partitions[0].error_code:
            time.sleep(0.01)

    def produce(self, topic: str, data: Buffer | None, acks: int = -1) -> ErrorCode:
        """Produce `data` as the records of partition 0; return the error code."""
        partitions = [PartitionProduceData(0, data)]
        request = ProduceRequest(None, acks, PATIENCE_S * 1000, [TopicProduceData(topic, partition_data=partitions)])
        answer = self.call(ProduceResponse, request, 11)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def read(self, topic: str, index: int = 0) -> Sequence[Record]:
        """Return all records of a partition, after verifying every checksum."""
        found: list[Record] = []
        for batch in self.batches(topic, index):
            assert batch.crc_ok()
            found.extend(records(batch, EVERYTHING))
        return found

    def batches(self, topic: str, index: int = 0) -> Sequence[Batch]:
        """Return all batches of a partition as they are stored."""
        topics = [FetchTopic(topic, partitions=[FetchPartition(index, -1, 0, partition_max_bytes=EVERYTHING)])]
        answer = self.call(FetchResponse, FetchRequest(max_bytes=EVERYTHING, topics=topics), 12)
        partition: Any = answer.responses[0].partitions[0]
        assert partition.error_code == 0, partition
        return list(batches(partition.records or b"", strict=True))


@contextlib.contextmanager
def tampered_frame(address: str, frame: bytes) -> Iterator[RawClient]:
    """Yield a connection on which `frame` has been sent."""
    with RawClient(address) as client:
        client.socket.sendall(frame)
        yield client
