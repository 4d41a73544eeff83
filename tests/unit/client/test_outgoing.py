"""Tests of an outgoing connection without a socket: sent requests, received responses, and every error that ends it."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.client.errors import Disconnected, InvalidResponse
from pykbroker.client.pending_response import PendingResponse
from pykbroker.client.response_reader import ResponseReader
from tests.unit.client.fake_broker import FakeBroker
from wire.frame import encode_response
from wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

VERSION = 3
FETCH_VERSION = 11


def ask(broker: FakeBroker, group: str = "group") -> PendingResponse[FindCoordinatorResponse]:
    return broker.connection.request(FindCoordinatorRequest(key_=group), VERSION)


def fetched(records: bytes) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=records)])])


def test_a_request_header_has_the_version_and_the_client_id_and_a_new_correlation_id() -> None:
    broker = FakeBroker()
    ask(broker, "a")
    ask(broker, "b")
    (first, request), (second, other) = broker.requests()
    assert (first.client_id, first.version, first.key) == ("test", VERSION, FindCoordinatorRequest.key)
    assert (request.key_, other.key_) == ("a", "b")
    assert first.correlation_id != second.correlation_id


def test_responses_are_matched_to_requests_in_order_and_wake_each_caller_once() -> None:
    broker = FakeBroker()
    woken: list[int] = []
    pending = [ask(broker, str(number)) for number in range(3)]
    for number, each in enumerate(pending):
        each.call_when_done(partial(woken.append, number))
    for header, request in broker.requests():
        broker.answer(header, FindCoordinatorResponse(host=f"host of {request.key_}"))
    assert [each.result().host for each in pending] == ["host of 0", "host of 1", "host of 2"]
    assert woken == [0, 1, 2]
    assert broker.connection.pending_count == 0
    assert not broker.is_closed


def test_the_response_of_an_abandoned_request_is_dropped_and_the_next_one_is_delivered() -> None:
    broker = FakeBroker()
    abandoned, kept = ask(broker), ask(broker)
    woken: list[bool] = []
    abandoned.call_when_done(lambda: woken.append(True))
    abandoned.abandon()
    for header, _ in broker.requests():
        broker.answer(header, FindCoordinatorResponse(host="h"))
    assert not woken
    assert abandoned.is_done
    assert kept.result().host == "h"


@given(st.data())
def test_responses_do_not_depend_on_how_the_bytes_are_split(data: st.DataObject) -> None:
    broker = FakeBroker()
    sizes = data.draw(st.lists(st.sampled_from([0, 1, 100, 32_768, 40_000, 200_000]), min_size=1, max_size=4))
    pending = [broker.connection.request(FetchRequest(), FETCH_VERSION) for _ in sizes]
    records = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(
        encode_response(fetched(each), FETCH_VERSION, header.correlation_id)
        for each, (header, _) in zip(records, broker.requests(), strict=True)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        broker.send(stream[start:end])
    found = [each.result().responses[0].partitions[0].records for each in pending]
    assert [bytes(each or b"") for each in found] == records
    assert not broker.is_closed


def test_the_records_of_a_large_response_are_a_view_on_one_buffer() -> None:
    broker = FakeBroker()
    pending = broker.connection.request(FetchRequest(), FETCH_VERSION)
    ((header, _),) = broker.requests()
    frame = encode_response(fetched(bytes(500_000)), FETCH_VERSION, header.correlation_id)
    broker.send(frame[:65_536])
    room = broker.connection.room
    assert room is not None
    assert len(room) == len(frame) - 65_536
    del room
    broker.send(frame[65_536:])
    found = pending.result().responses[0].partitions[0].records
    assert isinstance(found, memoryview)
    assert isinstance(found.obj, bytearray)
    assert broker.connection.room is None


def test_a_request_whose_sending_ends_the_connection_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, woken = FakeBroker(), []
    monkeypatch.setattr(broker, "flush", broker.close)
    pending = ask(broker)
    pending.call_when_done(lambda: woken.append(True))
    assert woken == [True]
    with pytest.raises(Disconnected):
        pending.result()


def test_pending_and_later_requests_fail_when_the_broker_closes_the_connection() -> None:
    broker, woken = FakeBroker(), []
    pending = [ask(broker), ask(broker)]
    pending[0].call_when_done(lambda: woken.append(True))
    broker.close()
    for each in pending:
        with pytest.raises(Disconnected, match=r"127\.0\.0\.1:9092 closed the connection"):
            each.result()
    assert woken == [True]
    with pytest.raises(Disconnected):
        ask(broker)


def test_a_response_that_arrived_before_the_connection_closed_stays_valid() -> None:
    broker = FakeBroker()
    first, second = ask(broker), ask(broker)
    header, _ = broker.requests()[0]
    broker.answer(header, FindCoordinatorResponse(host="h"))
    broker.connection.close()
    assert broker.is_closed
    assert first.result().host == "h"
    with pytest.raises(Disconnected, match="closed by this client"):
        second.result()


@pytest.mark.parametrize("size", [3, -1, (1 << 20) + 1])
def test_a_response_with_an_invalid_size_ends_the_connection(size: int) -> None:
    broker = FakeBroker()
    pending = ask(broker)
    broker.send(size.to_bytes(4, "big", signed=True))
    assert broker.is_closed
    with pytest.raises(InvalidResponse, match=f"a response of {size} bytes, allowed are 4 to 1048576"):
        pending.result()
    with pytest.raises(InvalidResponse):
        ask(broker)


def test_a_response_without_a_pending_request_ends_the_connection() -> None:
    broker = FakeBroker()
    broker.send((4).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    assert broker.is_closed
    with pytest.raises(InvalidResponse, match="answered request 7, but no request is pending"):
        ask(broker)


@pytest.mark.parametrize("bytes_before_the_rest", [4, 60_000])
def test_a_response_out_of_order_ends_the_connection(bytes_before_the_rest: int) -> None:
    broker = FakeBroker()
    pending = [ask(broker), ask(broker)]
    (oldest, _), (newest, _) = broker.requests()
    frame = encode_response(fetched(bytes(100_000)), FETCH_VERSION, newest.correlation_id)
    broker.send(frame[:bytes_before_the_rest])
    broker.send(frame[bytes_before_the_rest:])
    assert broker.is_closed
    for each in pending:
        with pytest.raises(InvalidResponse, match=f"but request {oldest.correlation_id} is the oldest pending"):
            each.result()


def test_a_response_that_does_not_decode_raises_an_error_for_its_request() -> None:
    broker = FakeBroker()
    pending = ask(broker)
    ((header, _),) = broker.requests()
    broker.send((6).to_bytes(4, "big") + header.correlation_id.to_bytes(4, "big") + b"\x00\xff")
    with pytest.raises(InvalidResponse, match="does not decode"):
        pending.result()
    assert broker.is_closed


def test_produce_with_acks_0_waits_for_no_response() -> None:
    broker = FakeBroker()
    broker.connection.send(ProduceRequest(acks=0, timeout_ms=1), 9)
    pending = ask(broker)
    (produce, _), (header, _) = broker.requests()
    assert produce.key == ProduceRequest.key
    broker.answer(header, FindCoordinatorResponse(host="h"))
    assert pending.result().host == "h"


def test_the_records_of_a_request_are_sent_without_a_copy() -> None:
    broker = FakeBroker()
    broker.flush = lambda: None  # type: ignore[method-assign]
    records = b"r" * 100_000
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])
    broker.connection.request(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 9)
    assert any(part is records for part in broker.connection.out)


def test_callbacks_report_when_all_bytes_are_sent_and_when_the_connection_is_closed() -> None:
    broker, calls = FakeBroker(), []
    broker.connection.on_closed = lambda: calls.append("closed")
    broker.connection.on_sent = lambda: calls.append("sent")
    broker.connection.unsent(5, 5)
    assert calls == []
    broker.connection.unsent(0, 0)
    assert calls == ["sent"]
    broker.close()
    assert calls == ["sent", "sent", "closed"]


@pytest.mark.parametrize(
    ("data", "peer"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server answers there: name"),
        (bytes.fromhex("15030100020246"), "a TLS listener answers there: set security.protocol to SSL or SASL_SSL"),
    ],
)
def test_the_error_names_the_protocol_of_a_peer_that_is_no_kafka_broker(data: bytes, peer: str) -> None:
    with pytest.raises(InvalidResponse, match=peer):
        list(ResponseReader(1 << 20).frames(data))
