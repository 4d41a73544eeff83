"""The producer with kafka-python's interface: its errors, its futures, and its callbacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pykbroker.kafka import KafkaProducer, producer
from pykbroker.kafka.errors import IllegalStateError, KafkaTimeoutError
from pykbroker.kafka.producer import close_forgotten
from pykbroker.producer.delivery import RowsFailed
from pykbroker.producer.threaded import ThreadedProducer
from tests.unit.producer.conftest import refuse
from tests.unit.producer.hosted import WAIT_S, HostedNet
from wire.api import ApiKey
from wire.error_codes import ErrorCode


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> HostedNet:
    """Return a network that the producer hosts."""
    net = HostedNet()
    monkeypatch.setattr(producer, "ThreadedProducer", partial(ThreadedProducer, world=net.world()))
    return net


@pytest.fixture
def producing(net: HostedNet) -> Iterator[KafkaProducer]:
    """Return a producer that is closed without a wait at the end."""
    made = KafkaProducer(bootstrap_servers="node1:9092", max_block_ms=2_000)
    net.wait_running()
    yield made
    close_forgotten(made._producer)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"topic": 5}, TypeError, "the topic 5 is of type int"),
        ({"topic": "a b"}, ValueError, "Topic name is invalid: 'a b'"),
        ({"partition": -1}, ValueError, "Unrecognized partition -1 for topic topic"),
        ({"partition": 3}, ValueError, "Unrecognized partition 3 for topic topic"),
        ({"timestamp_ms": 1.5}, TypeError, "the timestamp 1.5 is no integer"),
        ({"headers": (("a", b""),)}, TypeError, "headers must be list-type"),
        ({"headers": [("a", "b")]}, TypeError, r"All headers items must be .str, bytes. tuples"),
        ({"value": None}, ValueError, "Need at least one: key or value"),
        ({"value": "text"}, TypeError, "the value is of type str"),
        ({"topic": "unknown"}, KafkaTimeoutError, "topic 'unknown' is unknown to the cluster after max_block_ms=2000"),
    ],
)
def test_an_invalid_record_is_refused_and_later_records_are_written(
    producing: KafkaProducer, given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        producing.send(**{"topic": "topic", "value": b"bad"} | given)
    assert producing.send("topic", b"good", partition=2).get(WAIT_S).offset == 0


def test_a_future_has_the_metadata_and_calls_back(producing: KafkaProducer) -> None:
    called: list[Any] = []
    done = threading.Event()
    future = producing.send("topic", b"value", b"key", [("name", b"content")], 1, 77)
    future.add_callback(called.append).add_errback(called.append).add_both(lambda _: done.set())
    found = future.get(WAIT_S)
    assert found == ("topic", 1, ("topic", 1), 0, 77, None, 3, 5, 11)
    assert done.wait(WAIT_S)
    assert called == [found]
    future.add_callback(lambda *arguments: called.extend(arguments), "first")
    assert called == [found, "first", found], "a callback that is added later is called at once"
    assert future.is_done
    assert future.succeeded()
    assert (future.value, future.exception, future.retriable()) == (found, None, False)


def test_a_future_has_the_error_of_the_broker(net: HostedNet, producing: KafkaProducer) -> None:
    refuse(net.cluster, ErrorCode.INVALID_RECORD)
    errors: list[Any] = []
    future = producing.send("topic", b"value", partition=0).add_errback(errors.append).add_callback(errors.append)
    with pytest.raises(Exception, match="INVALID_RECORD") as caught:
        future.get(WAIT_S)
    assert type(caught.value).__name__ == "InvalidRecordError"
    assert future.failed()
    assert not future.retriable()
    assert [type(error) for error in errors] == [type(caught.value)]


def test_a_future_of_columns_calls_back_once_all_rows_are_written(net: HostedNet, producing: KafkaProducer) -> None:
    net.hold(ApiKey.PRODUCE)
    future = producing.send_many("topic", [b"%d" % row for row in range(30)], [b"key %d" % row for row in range(30)])
    called: list[Any] = []
    done = threading.Event()
    future.add_callback(lambda *arguments: called.extend(arguments), "rows").add_errback(called.append)
    future.add_both(lambda _: done.set())
    assert not future.is_done
    assert (future.value, future.exception, called) == (None, None, [])
    net.release()
    assert done.wait(WAIT_S)
    result = future.get(WAIT_S)
    assert called == ["rows", result]
    assert set(result.partitions) == {0, 1, 2}
    assert future.succeeded()


def test_the_rows_of_a_call_share_a_large_batch(producing: KafkaProducer) -> None:
    result = producing.send_many("topic", [bytes(100)] * 2000, partition=1).get(WAIT_S)
    assert result.offsets == list(range(2000))
    assert producing._producer.shell.statistics().requests == 1


def test_a_future_of_columns_calls_back_with_the_error_of_the_rows(net: HostedNet, producing: KafkaProducer) -> None:
    refuse(net.cluster, ErrorCode.INVALID_RECORD)
    errors: list[Any] = []
    future = producing.send_many("topic", [b"a", b"b"], partition=0).add_errback(errors.append)
    future.add_callback(errors.append)
    with pytest.raises(RowsFailed, match="2 of 2 rows failed") as caught:
        future.get(WAIT_S)
    assert [type(error).__name__ for error in caught.value.errors.values()] == ["InvalidRecordError"] * 2
    future.add_errback(errors.append)
    assert [error.errors.keys() for error in errors] == [{0, 1}, {0, 1}]
    assert future.failed()


def test_a_callback_that_waits_for_another_record_fails_and_blocks_nothing(
    net: HostedNet, producing: KafkaProducer, caplog: pytest.LogCaptureFixture
) -> None:
    waited: list[Exception] = []

    def wait_for_another(_metadata: Any) -> None:
        try:
            producing.send("topic", b"second", partition=0).get()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            waited.append(error)

    future = producing.send("topic", b"first", partition=0).add_callback(wait_for_another)
    future.get(WAIT_S)
    producing.flush(WAIT_S)
    assert "must not wait: hand the work to another thread" in str(waited[0])


def test_a_wait_ends_after_its_time(net: HostedNet, producing: KafkaProducer) -> None:
    net.hold(ApiKey.PRODUCE)
    future = producing.send("topic", b"value")
    with pytest.raises(KafkaTimeoutError, match=r"Timeout after waiting for 0.01 secs"):
        future.get(0.01)
    with pytest.raises(KafkaTimeoutError, match=r"Failed to flush buffered records within 0.01 secs"):
        producing.flush(0.01)
    net.release()
    assert future.get(WAIT_S).offset == 0


def test_a_closed_producer_refuses_records_and_its_futures_have_an_outcome(
    net: HostedNet, producing: KafkaProducer
) -> None:
    net.hold(ApiKey.PRODUCE)
    future = producing.send("topic", b"value")
    producing.close(0)
    with pytest.raises(IllegalStateError, match="closed before the record was acknowledged"):
        future.get()
    with pytest.raises(IllegalStateError, match="KafkaProducer already closed!"):
        producing.send("topic", b"value")
    producing.flush()
    producing.close()


def test_a_crash_fails_futures_and_calls(net: HostedNet, producing: KafkaProducer) -> None:
    net.hold(ApiKey.PRODUCE)
    future = producing.send("topic", b"value")
    net.crash()
    with pytest.raises(IllegalStateError, match="the thread of the producer has failed"):
        future.get(WAIT_S)
    with pytest.raises(RuntimeError, match="has failed"):
        producing.send("topic", b"value")
    with pytest.raises(RuntimeError, match="has failed"):
        producing.flush()
