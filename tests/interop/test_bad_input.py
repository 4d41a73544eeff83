"""Bytes that no client sends: the broker returns Kafka's error code, or closes the connection and logs one line.

Other clients are served meanwhile, memory stays within limits, and the log of the partition is unchanged.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.interop.bad_batches import (
    BEYOND,
    BOMBS,
    FRAMES,
    FRAMING,
    GOOD,
    HEADER,
    HEADERS,
    HOUR_MS,
    MEGABYTE,
    RECORDS,
    STREAMS,
    bomb,
    good,
)
from tests.interop.raw_client import PATIENCE_S, RawClient, tampered_frame
from tools.broker_process import BrokerProcess
from wire.api import ApiKey
from wire.apis import APIS
from wire.error_codes import ErrorCode
from wire.frame import encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.records.batch import Batch
from wire.records.builder import sealed
from wire.records.compression import Codec

OTHER = os.environ.get("PYKBROKER_TEST_BOOTSTRAP")
MODES = {"default": (), "trusting": ("--set", "pykbroker.validate.records=false")}
GROWTH_BYTES_MAX = 64 * MEGABYTE
REQUEST_BYTES_MAX = 100 * MEGABYTE

in_default = pytest.mark.parametrize("target", ["default"], indirect=True)
only_ours = pytest.mark.skipif(OTHER is not None, reason="Apache Kafka does not promise this")


class Target:
    """The attacked broker: its address, its options, and its process if it is pykbroker."""

    def __init__(self, address: str, options: Sequence[str], process: BrokerProcess | None) -> None:
        self.address, self.options, self.process = address, options, process

    def warnings(self) -> list[str]:
        """Return the log lines above INFO; for Apache Kafka, return an empty list."""
        lines = self.process.stderr.read_text().splitlines() if self.process else []
        return [line for line in lines if " INFO " not in line]

    @contextlib.contextmanager
    def bounded(self) -> Iterator[None]:
        """Check that the block raises the broker's peak memory by at most `GROWTH_BYTES_MAX`."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}")
        status.joinpath("clear_refs").write_text("5")  # Writing 5 resets the peak.
        before = self._peak_bytes()
        yield
        assert self._peak_bytes() - before < GROWTH_BYTES_MAX

    def _peak_bytes(self) -> int:
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.fixture(scope="module", params=MODES)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    options = MODES[request.param]
    if OTHER is not None:
        yield Target(OTHER, options, None)
        return
    directory = tmp_path_factory.mktemp("broker")
    process = BrokerProcess(directory, "--data-dir", str(directory / "data"), *options)
    process.start()
    yield Target(process.address, options, process)
    process.kill()


@pytest.fixture(autouse=True)
def unaffected_client(target: Target) -> Iterator[RawClient]:
    """Yield a connection that stays open during the attack.

    After the attack the broker must still serve this connection, and must have logged nothing unexpected.
    """
    logged = len(target.warnings())
    with RawClient(target.address) as client:
        topic = client.create_topic()
        assert client.produce(topic, GOOD) == 0
        yield client
        assert client.produce(topic, GOOD) == 0
        assert [record.offset for record in client.read(topic)] == [0, 1, 2, 3]
    news = target.warnings()[logged:]
    assert not any("Traceback" in line for line in news), "\n".join(news)


@pytest.fixture
def attacker(target: Target) -> Iterator[RawClient]:
    with RawClient(target.address) as client:
        yield client


def refused(attacker: RawClient, topic: str, batch: bytes, codes: tuple[ErrorCode, ...]) -> None:
    """Check that the batch is refused with one of `codes`, is not stored, and leaves the connection open."""
    code = attacker.produce(topic, batch)
    assert code in codes, code.name
    assert len(attacker.read(topic)) == (2 if code == 0 else 0)
    assert attacker.produce(topic, good()) == 0


# ---- batches


@pytest.mark.parametrize("name", [*FRAMING, *HEADERS])
def test_a_bad_batch_is_refused(attacker: RawClient, name: str) -> None:
    refused(attacker, attacker.create_topic(), *{**FRAMING, **HEADERS}[name])


@pytest.mark.parametrize("name", [*RECORDS, *STREAMS])
@in_default
def test_a_batch_with_bad_records_is_refused(attacker: RawClient, name: str) -> None:
    refused(attacker, attacker.create_topic(), *{**RECORDS, **STREAMS}[name])


@only_ours
@pytest.mark.parametrize("name", BEYOND)
@in_default
def test_a_batch_with_bad_records_that_kafka_stores_is_refused(attacker: RawClient, name: str) -> None:
    refused(attacker, attacker.create_topic(), BEYOND[name], (ErrorCode.INVALID_RECORD,))


@pytest.mark.parametrize("claimed", [0, -1, HEADER.max_timestamp - 1, HEADER.max_timestamp + 24 * HOUR_MS])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@in_default
def test_the_largest_timestamp_is_computed_from_the_records(attacker: RawClient, codec: Codec, claimed: int) -> None:
    topic = attacker.create_topic()
    honest = Batch.read(good(codec))
    assert attacker.produce(topic, sealed(replace(honest, max_timestamp=claimed), honest.payload)) == 0
    (stored,) = attacker.batches(topic)
    assert stored.crc_ok()
    assert stored.max_timestamp == max(record.timestamp for record in attacker.read(topic))


@pytest.mark.parametrize("name", STREAMS)
def test_a_damaged_compressed_stream_is_refused_if_it_is_recompressed(attacker: RawClient, name: str) -> None:
    codec = "gzip" if "zstd" in name else "zstd"
    refused(attacker, attacker.create_topic({"compression.type": codec}), *STREAMS[name])


@pytest.mark.parametrize("name", FRAMES)
def test_compressed_records_that_kafka_cannot_read_are_refused(attacker: RawClient, name: str) -> None:
    refused(attacker, attacker.create_topic(), *FRAMES[name])


@only_ours
@pytest.mark.parametrize("codec", BOMBS)
def test_a_decompression_bomb_is_refused_in_bounded_memory(target: Target, attacker: RawClient, codec: Codec) -> None:
    batch = bomb(codec, BOMBS[codec])
    assert len(batch) < MEGABYTE
    topic = attacker.create_topic({"compression.type": "zstd" if codec is not Codec.ZSTD else "gzip"})
    with target.bounded():
        assert attacker.produce(topic, batch) == ErrorCode.MESSAGE_TOO_LARGE
        assert attacker.read(topic) == []


@only_ours
@pytest.mark.parametrize("codec", BOMBS)
@in_default
def test_a_decompression_bomb_is_refused_if_records_are_validated(
    target: Target, attacker: RawClient, codec: Codec
) -> None:
    topic = attacker.create_topic()
    with target.bounded():
        assert attacker.produce(topic, bomb(codec, BOMBS[codec])) == ErrorCode.MESSAGE_TOO_LARGE
        assert attacker.read(topic) == []


@in_default
@pytest.mark.parametrize("acks", [2, -2, 7])
def test_invalid_acks_are_refused(attacker: RawClient, acks: int) -> None:
    assert attacker.produce(attacker.create_topic(), GOOD, acks) == ErrorCode.INVALID_REQUIRED_ACKS


# ---- requests


def plain(key: int, version: int, body: bytes = b"") -> bytes:
    """Return a frame with request header version 1."""
    content = struct.pack(">hhih", key, version, 1, 3) + b"raw" + body
    return struct.pack(">i", len(content)) + content


METADATA = ApiKey.METADATA
CLOSED = {
    "noise": b"\x80" + random.Random(1).randbytes(999),
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + random.Random(2).randbytes(500),
    "zeros": struct.pack(">i", 10_000) + bytes(10_000),
    "length -1": struct.pack(">i", -1) + bytes(8),
    "length 0": struct.pack(">i", 0) + bytes(8),
    "length of less than a header": struct.pack(">i", 4) + bytes(8),
    "length of -2 GiB": struct.pack(">i", -(2**31)) + bytes(8),
    "length of 2 GiB": struct.pack(">i", 2**31 - 1) + bytes(8),
    "length above the limit": struct.pack(">i", REQUEST_BYTES_MAX + 1) + bytes(8),
    "unknown key": plain(9999, 0),
    "key -1": plain(-1, 0),
    "a key of another listener": plain(ApiKey.VOTE, 0, bytes(20)),
    "a key that Kafka dropped": plain(4, 0),
    "unknown version": plain(METADATA, 99, bytes(20)),
    "version -1": plain(METADATA, -1, bytes(20)),
    "Produce 2, which is advertised no more": plain(ApiKey.PRODUCE, 2, struct.pack(">hii", 1, 1000, 0)),
    "no body": plain(METADATA, 8),
    "half a body": plain(METADATA, 8, struct.pack(">i", 1)),
    "two thousand million topics": plain(METADATA, 8, struct.pack(">i", 2**31 - 1) + bytes(40)),
    "a name longer than its frame": plain(METADATA, 8, struct.pack(">ih", 1, 32767) + bytes(10)),
    "a client id longer than its frame": struct.pack(">ihhih", 20, METADATA, 8, 1, 32767) + bytes(10),
    "Produce with noise": plain(ApiKey.PRODUCE, 9, b"\xff" * 100),
    "Fetch with noise": plain(ApiKey.FETCH, 12, b"\xff" * 100),
}


@in_default
@pytest.mark.parametrize("name", CLOSED)
def test_bytes_that_are_not_a_request_close_the_connection_with_at_most_one_log_line(target: Target, name: str) -> None:
    before = len(target.warnings())
    with tampered_frame(target.address, CLOSED[name]) as client:
        assert client.is_closed()
    if target.process is not None:
        lines = target.warnings()[before:]
        assert len(lines) <= 1  # a host gets one line a minute
        for line in lines:
            assert f"closing the connection of {client.name}: " in line or f"{client.name} is no client of" in line


@in_default
def test_an_error_with_acks_0_closes_its_connection(target: Target, attacker: RawClient) -> None:
    topic = attacker.create_topic()
    partitions = [PartitionProduceData(0, FRAMING["a turned bit"][0])]
    request = ProduceRequest(None, 0, 1000, [TopicProduceData(topic, partition_data=partitions)])
    before = len(target.warnings())
    with tampered_frame(target.address, encode_request(request, 11, 1, "raw")) as client:
        assert client.is_closed()
    assert attacker.read(topic) == []
    if target.process is not None:
        (line,) = target.warnings()[before:]
        assert f"closing the connection of {client.name}: Produce with acks=0" in line


@in_default
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(target: Target) -> None:
    with tampered_frame(target.address, plain(ApiKey.API_VERSIONS, 99, b"\0")) as client:
        answer = client.frame()
    assert answer[4:] == struct.pack(">hihhh", ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, 0, 4)


@in_default
@pytest.mark.parametrize("cut", [1, 4, 5, 20])
def test_an_incomplete_frame_is_not_handled(target: Target, cut: int) -> None:
    before = target.warnings()
    with tampered_frame(target.address, encode_request(MetadataRequest([]), 8, 1, "raw")[:cut]):
        pass
    assert target.warnings() == before


@in_default
def test_requests_sent_byte_by_byte_are_answered(attacker: RawClient) -> None:
    for byte in encode_request(MetadataRequest([]), 8, 7, "raw") * 2:
        attacker.socket.sendall(bytes([byte]))
    assert attacker.frame()[:4] == attacker.frame()[:4] == b"\0\0\0\7"


@in_default
def test_mutated_requests_of_every_api_do_not_affect_other_clients(
    target: Target, unaffected_client: RawClient
) -> None:
    """A response, a closed connection and silence are all correct, as long as the broker continues and no handler
    fails.
    """
    dice = random.Random(29)
    offered = unaffected_client.call(ApiVersionsResponse, ApiVersionsRequest(), 0).api_keys
    for api in offered:
        for version in range(max(api.min_version, APIS[ApiKey(api.api_key)].accepted[0]), api.max_version + 1):
            frame = encode_request(APIS[ApiKey(api.api_key)].request(), version, 1, "raw")
            for _ in range(4):
                data = bytearray(frame)
                for _ in range(dice.randint(1, 4)):
                    data[dice.randrange(8, len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
                with contextlib.suppress(ConnectionError), tampered_frame(target.address, bytes(data)):
                    pass


# ---- memory


@in_default
@only_ours
def test_a_claimed_frame_size_allocates_no_memory(target: Target) -> None:
    with target.bounded(), contextlib.ExitStack() as connections:
        for _ in range(300):
            frame = struct.pack(">i", REQUEST_BYTES_MAX) + bytes(8_000)
            connections.enter_context(tampered_frame(target.address, frame))
        with RawClient(target.address) as client:
            client.call(ApiVersionsResponse, ApiVersionsRequest(), 0)


@in_default
@only_ours
def test_a_request_with_a_million_names_is_refused(target: Target) -> None:
    names = [MetadataRequestTopic(name="x")] * 1_000_000
    frame = encode_request(MetadataRequest(names, allow_auto_topic_creation=False), 8, 1, "raw")
    with target.bounded(), tampered_frame(target.address, frame) as client:
        assert client.is_closed()


@in_default
@only_ours
def test_the_broker_stops_reading_from_a_client_that_never_reads(target: Target) -> None:
    """The client sends requests and does not read the responses, until its socket accepts no more bytes."""
    frames = encode_request(MetadataRequest(None), 8, 1, "raw") * 1_000_000
    with target.bounded(), RawClient(target.address) as client:
        client.socket.settimeout(2)
        with pytest.raises(TimeoutError):
            client.socket.sendall(frames)


@in_default
@only_ours
def test_clients_that_do_not_read_do_not_affect_others(target: Target, unaffected_client: RawClient) -> None:
    """Every client requests far more than it reads, until the broker stops reading from it."""
    frames = encode_request(ApiVersionsRequest(), 0, 1, "raw") * 100_000  # The response does not depend on topics.
    with target.bounded(), contextlib.ExitStack() as connections:
        for _ in range(100):
            client = connections.enter_context(RawClient(target.address))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while client.socket.send(frames):
                    pass
            unaffected_client.call(ApiVersionsResponse, ApiVersionsRequest(), 0)


# ---- connections


def open_files(target: Target) -> int:
    """Return the number of descriptors that the broker has open."""
    assert target.process is not None
    return len(os.listdir(f"/proc/{target.process.pid}/fd"))


NO_LINGER = struct.pack("ii", 1, 0)
"""The socket option with which close sends RST, so that this end of the connection disappears at once."""


@in_default
@only_ours
@pytest.mark.parametrize("sent", [0, 3, 4, 20])
@pytest.mark.parametrize("leaves", ["stays", "half closed", "reset"])
def test_the_broker_survives_a_flood_of_connections_without_a_complete_request(
    target: Target, unaffected_client: RawClient, sent: int, leaves: str
) -> None:
    """All connections are accepted, other clients are served, and the broker frees all resources of the flood."""
    frame = encode_request(ApiVersionsRequest(client_software_name="x" * 100), 3, 1, "raw")[:sent]
    before = open_files(target)
    with target.bounded(), contextlib.ExitStack() as connections:
        for _ in range(300):
            client = connections.enter_context(RawClient(target.address))
            client.socket.sendall(frame)
            if leaves == "half closed":
                client.socket.shutdown(socket.SHUT_WR)
            elif leaves == "reset":
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
                client.socket.close()
        for _ in range(10):
            unaffected_client.call(ApiVersionsResponse, ApiVersionsRequest(), 0)
    deadline = time.monotonic() + PATIENCE_S
    while open_files(target) > before:
        assert time.monotonic() < deadline, open_files(target)
        time.sleep(0.01)


@in_default
def test_frames_sent_byte_by_byte_on_many_connections_are_answered(
    target: Target, unaffected_client: RawClient
) -> None:
    frame = encode_request(ApiVersionsRequest(), 0, 1, "raw")
    with contextlib.ExitStack() as connections:
        clients = [connections.enter_context(RawClient(target.address)) for _ in range(100)]
        for place in range(len(frame)):
            for client in clients:
                client.socket.sendall(frame[place : place + 1])
            unaffected_client.call(ApiVersionsResponse, ApiVersionsRequest(), 0)
        assert len({client.frame() for client in clients}) == 1


# ---- the state after all attacks


def test_the_log_is_intact_after_a_crash(target: Target, start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(*target.options)
    with RawClient(broker.address) as client:
        topic = client.create_topic()
        for batch, _ in FRAMING.values():
            client.produce(topic, batch)
            client.produce(topic, GOOD)
        before = client.read(topic)
        assert len(before) == 2 * len(FRAMING)
    broker.restart()
    with RawClient(broker.address) as client:
        assert client.read(topic) == before
