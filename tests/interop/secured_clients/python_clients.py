"""Clients of confluent-kafka, kafka-python and aiokafka by TLS and SASL: what they read, or the error that they get.

Each function returns lines like those of the other programs of this folder. `open-NAME` is the topic, the group and
the transactional id of the log-in with that name, and `CLOSED` that of nobody.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from kafka.admin import NewTopic

from tests.interop.secured_broker import CLOSED, GOOD, LOG_INS, OPEN, Stores

READ_S = 15
BOOTSTRAP_MS = 500
"""The time after which kafka-python, which tries again, gives up a log-in that fails."""
CLOSED_TOO = "closed-too"


def shown(title: str, body: Callable[..., str], *arguments: Any) -> str:
    """Return a line with the result or the error of a call."""
    try:
        return f"{title}: {body(*arguments)}"
    except Exception as error:  # noqa: BLE001 - the errors of the clients are what is compared
        return f"{title}: {name_of(error)}"


def name_of(error: BaseException) -> str:
    """Return the name of a client's error: its class, or the error code of librdkafka."""
    if isinstance(error, confluent_kafka.KafkaException):
        found: str = error.args[0].name()
        return found
    return type(error).__name__


def with_confluent(stores: Stores, address: str) -> Iterator[str]:
    for log_in in LOG_INS:
        own, errors = OPEN + log_in.name, list[confluent_kafka.KafkaError]()
        configs: dict[str, Any] = {**stores.confluent(address, log_in), "error_cb": errors.append}
        if log_in in GOOD:
            yield shown(f"{log_in.name} copies", _copied_by_confluent, configs, own)
        if log_in is GOOD[0]:
            yield shown(f"{log_in.name} reads", _read_by_confluent, configs, CLOSED, own)
            yield shown(f"{log_in.name} sends", _sent_by_confluent, configs, CLOSED)
            yield shown(f"{log_in.name} begins", _begun_by_confluent, configs, CLOSED)
            yield shown(f"{log_in.name} joins", _read_by_confluent, configs, own, CLOSED)
        if log_in not in GOOD:
            producer = confluent_kafka.Producer(configs)
            deadline = time.monotonic() + READ_S
            while not errors and time.monotonic() < deadline:
                producer.poll(0.1)
            yield f"{log_in.name} connects: {errors[0].name()}"


def _copied_by_confluent(configs: dict[str, Any], own: str) -> str:
    producer = confluent_kafka.Producer({**configs, "transactional.id": own})
    producer.init_transactions(READ_S)
    producer.begin_transaction()
    producer.produce(own, b"aborted")
    producer.abort_transaction(READ_S)
    producer.begin_transaction()
    for value in (b"a", b"b"):
        producer.produce(own, value)
    producer.commit_transaction(READ_S)
    return _read_by_confluent(configs, own, own)


def _sent_by_confluent(configs: dict[str, Any], topic: str) -> str:
    results: list[Any] = []
    producer = confluent_kafka.Producer(configs)
    producer.produce(topic, b"x", on_delivery=lambda error, _: results.append(error))
    assert producer.flush(READ_S) == 0
    return "sent" if results[0] is None else str(results[0].name())


def _begun_by_confluent(configs: dict[str, Any], transactional_id: str) -> str:
    producer = confluent_kafka.Producer({**configs, "transactional.id": transactional_id})
    producer.init_transactions(READ_S)
    return "begun"


def _read_by_confluent(configs: dict[str, Any], topic: str, group: str) -> str:
    settings = {"group.id": f"{group}-c" if group != CLOSED else group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**configs, **settings})
    consumer.subscribe([topic])
    found: list[str] = []
    with closing(consumer):
        while len(found) < 2:
            message = consumer.poll(READ_S)
            assert message is not None
            if message.error() is not None:
                return str(message.error().name())
            found.append((message.value() or b"").decode())
        consumer.commit(asynchronous=False)
    return " ".join(found)


def with_kafka_python(stores: Stores, address: str) -> Iterator[str]:
    for log_in in LOG_INS:
        own, configs = OPEN + log_in.name, stores.python(address, log_in)
        if log_in in GOOD:
            yield shown(f"{log_in.name} copies", _copied_by_kafka_python, configs, own)
        if log_in is GOOD[0]:
            yield shown(f"{log_in.name} begins", _begun_by_kafka_python, configs, CLOSED)
            yield shown(f"{log_in.name} joins", _read_by_kafka_python, configs, own, CLOSED)
            yield shown(f"{log_in.name} sends", _sent_by_kafka_python, configs, CLOSED)
        if log_in is GOOD[0] or log_in not in GOOD:
            settings = {**configs, "bootstrap_timeout_ms": BOOTSTRAP_MS}
            yield shown(f"{log_in.name} creates", _created_by_kafka_python, settings)


def _copied_by_kafka_python(configs: dict[str, Any], own: str) -> str:
    with closing(kafka.KafkaProducer(transactional_id=own, **configs)) as producer:
        producer.init_transactions()
        for values in (("aborted",), ("a", "b")):
            producer.begin_transaction()
            for value in values:
                producer.send(own, value.encode())
            (producer.commit_transaction if len(values) > 1 else producer.abort_transaction)()
    return _read_by_kafka_python(configs, own, own)


def _sent_by_kafka_python(configs: dict[str, Any], topic: str) -> str:
    with closing(kafka.KafkaProducer(**configs)) as producer:
        producer.send(topic, b"x").get(READ_S)
    return "sent"


def _begun_by_kafka_python(configs: dict[str, Any], transactional_id: str) -> str:
    with closing(kafka.KafkaProducer(transactional_id=transactional_id, **configs)) as producer:
        producer.init_transactions()
    return "begun"


def _read_by_kafka_python(configs: dict[str, Any], topic: str, group: str) -> str:
    own_group = f"{group}-p" if group != CLOSED else group
    settings = {"group_id": own_group, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer: Any = kafka.KafkaConsumer(topic, consumer_timeout_ms=READ_S * 1000, **settings, **configs)
    with closing(consumer):
        found = " ".join(next(consumer).value.decode() for _ in range(2))
        consumer.commit()
    return found


def _created_by_kafka_python(configs: dict[str, Any]) -> str:
    with closing(kafka.KafkaAdminClient(**configs)) as admin:
        admin.create_topics([NewTopic(CLOSED_TOO, 1, 1)])
    return "created"


async def with_aiokafka(stores: Stores, address: str) -> list[str]:
    lines = []
    for log_in in LOG_INS:
        own, configs = OPEN + log_in.name, {**stores.python(address, log_in)}
        context = ssl.create_default_context(cafile=configs.pop("ssl_cafile"))
        settings = {**configs, "ssl_context": context}
        if log_in in GOOD:
            lines.append(await _awaited(f"{log_in.name} copies", _copied_by_aiokafka(settings, own)))
        if log_in is GOOD[0]:
            lines.append(await _awaited(f"{log_in.name} begins", _begun_by_aiokafka(settings, CLOSED)))
            lines.append(await _awaited(f"{log_in.name} joins", _read_by_aiokafka(settings, own, CLOSED)))
        if log_in is GOOD[0] or log_in not in GOOD:
            lines.append(await _awaited(f"{log_in.name} sends", _sent_by_aiokafka(settings, CLOSED)))
    return lines


async def _awaited(title: str, body: Awaitable[str]) -> str:
    try:
        return f"{title}: {await asyncio.wait_for(body, READ_S)}"
    except Exception as error:  # noqa: BLE001 - the errors of the clients are what is compared
        return f"{title}: {name_of(error)}"


async def _copied_by_aiokafka(configs: dict[str, Any], own: str) -> str:
    async with aiokafka.AIOKafkaProducer(transactional_id=own, **configs) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(own, b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            for value in (b"a", b"b"):
                await producer.send_and_wait(own, value)
    return await _read_by_aiokafka(configs, own, own)


async def _sent_by_aiokafka(configs: dict[str, Any], topic: str) -> str:
    producer = aiokafka.AIOKafkaProducer(**configs)
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"x")
    finally:
        await producer.stop()
    return "sent"


async def _begun_by_aiokafka(configs: dict[str, Any], transactional_id: str) -> str:
    producer = aiokafka.AIOKafkaProducer(transactional_id=transactional_id, **configs)
    try:
        await producer.start()
    finally:
        await producer.stop()
    return "begun"


async def _read_by_aiokafka(configs: dict[str, Any], topic: str, group: str) -> str:
    own_group = f"{group}-a" if group != CLOSED else group
    settings = {"group_id": own_group, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer = aiokafka.AIOKafkaConsumer(topic, **settings, **configs)
    try:
        await consumer.start()
        found = [(await consumer.getone()).value for _ in range(2)]
        await consumer.commit()
    finally:
        await consumer.stop()
    return b" ".join(value or b"" for value in found).decode()
