"""Tests that refused requests use little memory: a thousand batches of each kind that is decompressed in a thread, and
forty requests of 20 MiB.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from pykbroker.storage.log.rewrite import is_long_work
from pykbroker.storage.segments.config import LogConfig
from tests.interop.bad_batches import HOUR_MS
from tests.interop.raw_client import RawClient
from tools.broker_process import BrokerProcess
from wire.error_codes import ErrorCode
from wire.frame import decode_response, encode_request
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec

REFUSALS, AT_ONCE = 1000, 50
CASES_AT_ONCE = 2
GROWTH_BYTES_MAX = 50 << 20
LARGE_BYTES, LARGE_REQUESTS = 20 << 20, 40
KEPT_BYTES_MAX = 40 << 20
NOISE = random.Random(1).randbytes(2048)
OPENED_BYTES_MAX = {Codec.GZIP: 300_000, Codec.SNAPPY: 2 << 20, Codec.LZ4: 2 << 20, Codec.ZSTD: 2 << 20}
"""The decompressed size from which a batch is decompressed in a thread."""
TOO_LARGE, INVALID = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD

Kind = tuple[Codec, bytes, Mapping[str, str], ErrorCode]


def batch(codec: Codec, over: int = -1000, key: bytes | None = b"key", age_ms: int = 0) -> bytes:
    """Return a batch with one record of noise and zeros that decompresses to `over` bytes above the limit."""
    builder = BatchBuilder(codec)
    builder.append(
        key, NOISE + bytes(OPENED_BYTES_MAX[codec] + over - len(NOISE)), (), int(time.time() * 1000) - age_ms
    )
    return builder.build()


def kinds() -> Iterator[Kind]:
    """Yield (codec, batch, topic configs, error code) for each kind of refused batch."""
    for codec in OPENED_BYTES_MAX:
        whole = Batch.read(batch(codec))
        yield codec, batch(codec, over=1), {}, TOO_LARGE
        yield codec, sealed(whole, bytes(whole.payload[: whole.size // 2])), {}, INVALID
    whole = Batch.read(batch(Codec.GZIP))
    yield Codec.GZIP, sealed(replace(whole, count=2, last_offset_delta=1), whole.payload), {}, INVALID
    yield Codec.GZIP, batch(Codec.GZIP, key=None), {"cleanup.policy": "compact"}, INVALID
    old = batch(Codec.GZIP, age_ms=HOUR_MS)
    yield Codec.GZIP, old, {"message.timestamp.before.max.ms": "1000"}, ErrorCode.INVALID_TIMESTAMP
    yield Codec.GZIP, batch(Codec.GZIP), {"compression.type": "uncompressed"}, TOO_LARGE


class Case(NamedTuple):
    """A kind of batch that a topic refuses with an error code."""

    topic: str
    data: bytes
    code: ErrorCode


def refuse_all(address: str, cases: list[Case], count: int) -> None:
    """Produce the batch of each case `count` times, those of two cases at once."""

    def refuse_one(case: Case) -> None:
        with RawClient(address) as client:
            for _ in range(count // AT_ONCE):
                refuse(client, *case, AT_ONCE)

    with ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        list(pool.map(refuse_one, cases))


def refuse(client: RawClient, topic: str, data: bytes, code: ErrorCode, count: int) -> None:
    """Produce the batch `count` times; check that each is refused with `code`."""
    partitions = [PartitionProduceData(0, data)]
    request = encode_request(
        ProduceRequest(None, 1, 1000, [TopicProduceData(topic, partition_data=partitions)]), 11, 1, "raw"
    )
    client.socket.sendall(request * count)
    for _ in range(count):
        answer = decode_response(ProduceResponse, 11, client.frame())[1]
        assert answer.responses[0].partition_responses[0].error_code == code


def peak_bytes(broker: BrokerProcess) -> int:
    """Return the process's peak memory since the peak was last reset."""
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_refused_batches_do_not_leak_memory(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("--memory")
    with RawClient(broker.address) as client:
        cases = [
            Case(client.create_topic({"max.message.bytes": str(OPENED_BYTES_MAX[codec] // 16), **configs}), data, code)
            for codec, data, configs, code in kinds()
        ]
    assert sum(is_long_work(Batch.read(case.data), LogConfig()) for case in cases) >= len(cases) - len(OPENED_BYTES_MAX)
    refuse_all(broker.address, cases, AT_ONCE)
    Path(f"/proc/{broker.pid}/clear_refs").write_text("5")  # Writing 5 resets the peak.
    before = peak_bytes(broker)
    refuse_all(broker.address, cases, REFUSALS)
    assert peak_bytes(broker) - before < GROWTH_BYTES_MAX


def kept_bytes(broker: BrokerProcess) -> int:
    """Return the process's present memory."""
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def too_large(client: RawClient, topic: str, data: bytes) -> ErrorCode:
    return client.produce(topic, data)


def corrupt(client: RawClient, topic: str, data: bytes) -> ErrorCode:
    return client.produce(topic, data[:-1] + bytes([data[-1] ^ 1]))


def no_session_timeout(client: RawClient, topic: str, data: bytes) -> ErrorCode:
    request = JoinGroupRequest(
        topic, 1, 1000, protocol_type="consumer", protocols=[JoinGroupRequestProtocol("p", data)]
    )
    return ErrorCode(client.call(JoinGroupResponse, request, 5).error_code)


@pytest.mark.parametrize(
    ("refused", "bytes_max", "code"),
    [
        (too_large, LARGE_BYTES, TOO_LARGE),
        (corrupt, 2 * LARGE_BYTES, ErrorCode.CORRUPT_MESSAGE),
        (no_session_timeout, LARGE_BYTES, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_large_refused_requests_of_one_connection_are_not_kept(
    start_broker: Callable[..., BrokerProcess],
    refused: Callable[[RawClient, str, bytes], ErrorCode],
    bytes_max: int,
    code: ErrorCode,
) -> None:
    broker = start_broker("--memory")
    builder = BatchBuilder()
    builder.append(b"key", random.Random(1).randbytes(LARGE_BYTES), (), int(time.time() * 1000))
    data = builder.build()
    with RawClient(broker.address) as client:
        topic = client.create_topic({"max.message.bytes": str(bytes_max)})
        while client.call(FindCoordinatorResponse, FindCoordinatorRequest(topic), 1).error_code:
            time.sleep(0.01)
        assert refused(client, topic, data) == code
        before = kept_bytes(broker)
        for _ in range(LARGE_REQUESTS):
            assert refused(client, topic, data) == code
        assert kept_bytes(broker) - before < KEPT_BYTES_MAX
