"""The first calls of all clients that cannot log in: each names the cause at once, and waits for no time-out."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from pykbroker import kafka
from pykbroker.client.errors import AuthenticationError
from pykbroker.consumer import AsyncConsumer, Consumer
from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.consumer.errors import ConsumerTimeout
from pykbroker.core.producer.errors import MetadataTimeout, TransactionError, TransactionTimeout
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.errors import SaslAuthenticationFailedError
from pykbroker.producer import AsyncProducer, Producer
from pykbroker.testing.running import RunningBroker, running_broker

pytestmark = pytest.mark.timeout(20)  # every default time-out of a call is a minute

T, T0 = "orders", TopicPartition("orders", 0)
IN_GROUP = {"group_id": "readers"}
Settings = dict[str, Any]
Calls = dict[str, tuple[Settings, Callable[[Any], Awaitable[Any]]]]


async def committed_at(consumer: Any) -> None:
    consumer.assign([T0])
    await consumer.commit({T0: 1})


async def position(consumer: Any) -> None:
    consumer.assign([T0])
    await consumer.position(T0)


async def polled(consumer: Any) -> None:
    consumer.subscribe([T])
    await consumer.poll()


async def got(consumer: Any) -> None:
    consumer.assign([T0])
    await consumer.getone()


async def delivered(producer: Any) -> None:
    await (await producer.send(T, b"x"))


LOOK_UPS: Calls = {
    "beginning_offsets": ({}, lambda consumer: consumer.beginning_offsets([T0])),
    "end_offsets": ({}, lambda consumer: consumer.end_offsets([T0])),
    "offsets_for_times": ({}, lambda consumer: consumer.offsets_for_times({T0: 0})),
    "partitions_for": ({}, lambda consumer: consumer.partitions_for(T)),
    "topics": ({}, lambda consumer: consumer.topics()),
    "position": ({}, position),
    "position in a group": (IN_GROUP, position),
    "commit": (IN_GROUP, committed_at),
}
OF_CONSUMER: Calls = {
    **LOOK_UPS,
    "committed": (IN_GROUP, lambda consumer: consumer.committed([T0])),
    "poll": ({}, polled),
    "poll in a group": (IN_GROUP, polled),
    "poll in a group of KIP-848": ({**IN_GROUP, "group_protocol": "consumer"}, polled),
}
OF_ASYNC_CONSUMER: Calls = {
    **LOOK_UPS,
    "committed": (IN_GROUP, lambda consumer: consumer.committed(T0)),
    "getone": ({}, got),
}
OF_PRODUCER: Calls = {
    "send": ({}, delivered),
    "send without idempotence": ({"enable_idempotence": False}, delivered),
    "partitions_for": ({}, lambda producer: producer.partitions_for(T)),
    "init_transactions": ({"transactional_id": "t"}, lambda producer: producer.init_transactions()),
}
OF_DROP_IN: dict[str, tuple[type[Any], Settings, Callable[[Any], Any]]] = {
    "send": (kafka.KafkaProducer, {}, lambda producer: producer.send(T, b"x").get(60)),
    "partitions_for": (kafka.KafkaProducer, {}, lambda producer: producer.partitions_for(T)),
    "init": (kafka.KafkaProducer, {"transactional_id": "t"}, lambda producer: producer.init_transactions()),
    "poll": (kafka.KafkaConsumer, IN_GROUP, lambda consumer: [consumer.subscribe([T]), consumer.poll(60_000)]),
    "next": (kafka.KafkaConsumer, {}, lambda consumer: [consumer.subscribe([T]), next(consumer)]),
    "topics": (kafka.KafkaConsumer, {}, lambda consumer: consumer.topics()),
    "partitions_for_topic": (kafka.KafkaConsumer, {}, lambda consumer: consumer.partitions_for_topic(T)),
    "end_offsets": (kafka.KafkaConsumer, {}, lambda consumer: consumer.end_offsets([kafka.TopicPartition(*T0)])),
    "committed": (kafka.KafkaConsumer, IN_GROUP, lambda consumer: consumer.committed(kafka.TopicPartition(*T0))),
}


@pytest.fixture(scope="module")
def secured() -> Iterator[RunningBroker]:
    configs = {"connection.failed.authentication.delay.ms": 0}
    with running_broker(tls=True, users={"alice": "secret"}, topics=[T], configs=configs) as broker:
        yield broker


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningBroker]:
    with running_broker() as broker:
        yield broker


FAILURES = ("wrong password", "untrusted authority", "TLS with a plaintext port")
FEW = ("send", "init_transactions", "init", "poll in a group", "topics", "getone", "next")
"""The calls that meet each failure. A failure of TLS takes the way of a wrong password from the connection on."""


def cases(table: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the failures with the calls that meet them."""
    return [(failure, name) for failure in FAILURES for name in table if failure == FAILURES[0] or name in FEW]


@pytest.fixture
def refused(request: pytest.FixtureRequest, secured: RunningBroker) -> tuple[Settings, str]:
    """Return the settings of a client that cannot connect, and the cause."""
    given = secured.kafka_python("alice")
    match request.param:
        case "wrong password":
            return {**given, "sasl_plain_password": "wrong"}, "invalid credentials with SASL mechanism SCRAM-SHA-256"
        case "untrusted authority":
            return {**given, "ssl_cafile": None}, "the broker's certificate is refused .*: trust the authority"
    unsecured = request.getfixturevalue("plain").bootstrap
    return {**given, "bootstrap_servers": unsecured}, "the broker does not answer by TLS"


def run(client: Any, call: Callable[[Any], Awaitable[Any]]) -> None:
    """Call a client in its block, on its loop."""

    async def main() -> None:
        async with client:
            await call(client)

    if isinstance(client, Producer | Consumer):
        trio.run(main)
    else:
        asyncio.run(main())


def raised(call: Callable[[], Any]) -> BaseException:
    """Return the error of a call, without the groups of nurseries."""
    with pytest.raises((Exception, ExceptionGroup)) as caught:
        call()
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
@pytest.mark.parametrize(("refused", "name"), cases(OF_PRODUCER), indirect=["refused"])
def test_a_producer_names_the_cause(refused: tuple[Settings, str], name: str, kind: type[Any]) -> None:
    (given, cause), (more, call) = refused, OF_PRODUCER[name]
    error = raised(lambda: run(kind(**given, **more), call))
    assert isinstance(error, AuthenticationError | TransactionError)
    assert re.search(cause, str(error))


@pytest.mark.parametrize(("refused", "name"), cases(OF_CONSUMER), indirect=["refused"])
def test_a_consumer_names_the_cause(refused: tuple[Settings, str], name: str) -> None:
    (given, cause), (more, call) = refused, OF_CONSUMER[name]
    error = raised(lambda: run(Consumer(**given, **more), call))
    assert isinstance(error, AuthenticationError)
    assert re.search(cause, str(error))


@pytest.mark.parametrize(("refused", "name"), cases(OF_ASYNC_CONSUMER), indirect=["refused"])
def test_a_consumer_of_asyncio_names_the_cause(refused: tuple[Settings, str], name: str) -> None:
    (given, cause), (more, call) = refused, OF_ASYNC_CONSUMER[name]
    error = raised(lambda: run(AsyncConsumer(**given, **more), call))
    assert isinstance(error, AuthenticationError)
    assert re.search(cause, str(error))


@pytest.mark.parametrize(("refused", "name"), cases(OF_DROP_IN), indirect=["refused"])
def test_the_drop_in_names_the_cause(refused: tuple[Settings, str], name: str) -> None:
    (given, cause), (kind, more, call) = refused, OF_DROP_IN[name]

    def run() -> None:
        client = kind(**given, **more)  # a consumer connects at once, as in kafka-python
        with contextlib.closing(client):
            call(client)

    error = raised(run)
    assert isinstance(error, SaslAuthenticationFailedError)
    assert re.search(cause, str(error))


def with_protocol(secured: RunningBroker, protocol: str) -> Settings:
    """Return the settings of a client with too little security."""
    given = {**secured.kafka_python("alice"), "security_protocol": protocol}
    unused = ("sasl", "ssl") if protocol == "PLAINTEXT" else ("ssl",) if protocol == "SASL_PLAINTEXT" else ("sasl",)
    return {name: value for name, value in given.items() if not name.startswith(unused)}


@pytest.mark.parametrize(
    ("protocol", "missing"), [("PLAINTEXT", "TLS or SASL"), ("SASL_PLAINTEXT", "TLS"), ("SSL", "SASL")]
)
def test_a_client_with_too_little_security_says_so_when_it_gives_up(
    secured: RunningBroker, protocol: str, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = with_protocol(secured, protocol)
    call = OF_PRODUCER["partitions_for"][1]
    error = raised(lambda: run(Producer(**given, max_block_ms=300), call))
    cause = f"closed the connection: a listener with {missing} does so, and needs another security_protocol"
    assert isinstance(error, MetadataTimeout)
    assert str(error).endswith(cause)
    assert cause in caplog.text


@pytest.mark.parametrize(
    ("kind", "settings", "call", "expected"),
    [
        (
            Producer,
            {"max_block_ms": 300, "transactional_id": "t"},
            OF_PRODUCER["init_transactions"],
            TransactionTimeout,
        ),
        (Consumer, {"default_api_timeout_ms": 300}, LOOK_UPS["topics"], ConsumerTimeout),
        (AsyncConsumer, {"default_api_timeout_ms": 300}, LOOK_UPS["topics"], ConsumerTimeout),
    ],
)
def test_each_call_that_gives_up_ends_with_the_last_failure(
    secured: RunningBroker, kind: type[Any], settings: Settings, call: tuple[Settings, Any], expected: type[Exception]
) -> None:
    error = raised(lambda: run(kind(**with_protocol(secured, "PLAINTEXT"), **settings), call[1]))
    assert isinstance(error, expected)
    assert str(error).endswith(
        "closed the connection: a listener with TLS or SASL does so, and needs another security_protocol"
    )
    assert "300" in str(error)


def test_a_call_in_the_background_that_gives_up_ends_with_the_last_failure(secured: RunningBroker) -> None:
    hosted = HostedConsumer(consumer_settings(with_protocol(secured, "PLAINTEXT")))
    try:
        error = raised(lambda: hosted.ask(hosted.consumer.topics, timeout_s=0.3))
    finally:
        hosted.stop()
    assert isinstance(error, ConsumerTimeout)
    assert str(error).startswith("no answer within 0.3 s: ")
    assert str(error).endswith("needs another security_protocol")
