"""The run of `drop_in_programs` with kafka-python and with the drop-in, on one broker."""

from __future__ import annotations

import gc
import importlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import kafka

from tests.interop import drop_in_programs as programs
from tests.interop.metadata_pause import without_pause

MODULES = (
    "admin",
    "consumer.group",
    "consumer.subscription_state",
    "coordinator.assignors.cooperative_sticky",
    "coordinator.assignors.range",
    "coordinator.assignors.roundrobin",
    "coordinator.assignors.sticky.sticky_assignor",
    "partitioner",
    "version",
)
"""The modules that programs use by their full names."""
Outcomes = dict[tuple[str, int], str | type]
"""The value or the error of each program of a group, and of its repetitions."""


class Library:
    """One of the two libraries, and the clients that its programs have made."""

    def __init__(self, name: str, servers: str) -> None:
        self._module = module = importlib.import_module(name)
        for each in MODULES:
            importlib.import_module(f"{name}.{each}")
        self._servers, self._clients = servers, list[Any]()
        self._names = {each: getattr(module, each) for each in kafka.__all__} | {
            "kafka": module,
            "first": module.TopicPartition("letters", 0),
            "other": module.TopicPartition("letters", 9),
            "make": lambda name, bases, **members: type(name, bases, members)(),
            "KafkaConsumer": self.maker(module.KafkaConsumer),
            "KafkaProducer": self.maker(module.KafkaProducer),
        }

    def maker(self, kind: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that makes clients of the broker."""

        def make(*topics: str, **configs: Any) -> Any:
            client = without_pause(kind(*topics, **{"bootstrap_servers": self._servers, **configs}))
            self._clients.append(client)
            return client

        return make

    def close(self) -> None:
        """Close all clients."""
        for client in self._clients:
            client.close()
        gc.collect()

    def outcomes(self) -> Outcomes:
        """Run all programs."""
        found: Outcomes = {}
        for group, clients in self._groups():
            names = self._names | clients
            for program in group:
                key = (program, sum(1 for each, at in found if each == program))
                found[key] = outcome(program, names)
        return found

    def _groups(self) -> Iterator[tuple[Sequence[str], dict[str, Any]]]:
        """Yield the groups of programs, each with its client."""
        new_consumer, new_producer = self._names["KafkaConsumer"], self._names["KafkaProducer"]
        yield programs.MAKING_CONSUMERS, {}
        yield programs.MAKING_PRODUCERS, {}
        yield programs.NAMES, {}
        producer = new_producer()
        yield programs.SENDING, {"producer": producer}
        producer.close()
        yield programs.AFTER_CLOSE_OF_PRODUCER, {"producer": producer}
        yield programs.TRANSACTIONS, {"producer": new_producer(transactional_id="teller")}
        producer = new_producer(transactional_id="clerk")
        producer.init_transactions()
        producer.begin_transaction()
        new_producer(transactional_id="clerk").init_transactions()
        producer.send("numbers", b"a")
        yield programs.SENT_AFTER_FENCING, {"producer": producer}
        yield programs.ASSIGNING, {"consumer": new_consumer(allow_auto_create_topics=False)}
        for group, configs in (
            (programs.READING, {"auto_offset_reset": "none"}),
            (programs.DESERIALIZING, {"auto_offset_reset": "earliest", "value_deserializer": int}),
        ):
            consumer = new_consumer(consumer_timeout_ms=300, **configs)
            consumer.assign([self._names["first"]])
            yield group, {"consumer": consumer}
        yield programs.SUBSCRIBING, {"consumer": new_consumer(group_id="others")}
        listener, group_id = heard(self._module.ConsumerRebalanceListener), uuid.uuid4().hex
        consumer = new_consumer(group_id=group_id, auto_offset_reset="earliest")
        consumer.subscribe(["letters"], listener=listener)
        rival = new_consumer(group_id=group_id)
        yield programs.IN_A_GROUP, {"consumer": consumer, "listener": listener, "rival": rival}
        consumer = new_consumer(group_id="last")
        consumer.assign([self._names["first"]])
        consumer.position(self._names["first"])
        consumer.close()
        yield programs.AFTER_CLOSE_OF_CONSUMER, {"consumer": consumer}


def heard(base: Any) -> Any:
    """Return a listener that keeps what it last heard of."""

    class Heard(base):
        assigned: Any = None
        revoked: Any = None

        def on_partitions_assigned(self, assigned: Any) -> None:
            self.assigned = assigned

        def on_partitions_revoked(self, revoked: Any) -> None:
            self.revoked = revoked

    return Heard()


def outcome(program: str, names: dict[str, Any]) -> str | type:
    """Return the text of a program's value, or the class of its error."""
    try:
        found = eval(program, names)  # noqa: S307 - the programs are a table of this project
    except Exception as error:  # noqa: BLE001 - it is the outcome
        return type(error)  # an error would keep the sockets of a client that could not be made
    if isinstance(found, set):
        return f"{{{', '.join(sorted(map(repr, found)))}}}" if found else "set()"
    return type(found).__name__ if " object at 0x" in repr(found) else repr(found)


def text(found: str | type) -> str:
    """Return an outcome as in the table of differences. An error is the class that an `except` clause names."""
    if isinstance(found, str):
        return found
    return next(each.__name__ for each in found.__mro__ if each.__module__ in ("builtins", "kafka.errors"))


def is_same(theirs: str | type, ours: str | type) -> bool:
    """Whether the values are equal, or an `except` clause for the error of kafka-python catches ours too."""
    if isinstance(theirs, type):
        return isinstance(ours, type) and issubclass(ours, theirs)
    return theirs == ours


def run(name: str, servers: str) -> Outcomes:
    """Return the outcomes of all programs with a library."""
    library = Library(name, servers)
    found = library.outcomes()
    library.close()
    return found


def differences(servers: str) -> set[tuple[str, str, str]]:
    """Return the programs whose outcomes differ, with the outcomes of kafka-python and of the drop-in."""
    theirs, ours = run("kafka", servers), run("pykbroker.kafka", servers)
    return {(key[0], text(found), text(ours[key])) for key, found in theirs.items() if not is_same(found, ours[key])}
