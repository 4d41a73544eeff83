"""The lines on stdout which report that clients can connect."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator

from pykbroker.cli.start.process import JsonLine
from pykbroker.core.address import Address
from pykbroker.core.settings import Serving, Settings
from pykbroker.core.version import VERSION

LINES_OF_KAFKA = (
    "[BrokerLifecycleManager id={0}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
    "[KafkaRaftServer nodeId={0}] Kafka Server started",
    "[KafkaServer id={0}] started",
)
"""The lines of Kafka's log after which it serves clients; the last one is that of Kafka with ZooKeeper.

Testcontainers, and scripts that start an image of Kafka, search its output for one of them.
"""

logger = logging.getLogger(__name__)


def first_lines(
    settings: Settings, serving: Serving, remarks: Iterable[str] = (), *, as_json: bool, container: bool
) -> Iterator[str]:
    """Yield the lines: the first one, remarks, and in a container those of Kafka's log.

    `as_json`: each one is a JSON object.
    """
    yield json_line(settings, serving) if as_json else sentence(settings, serving)
    if settings.users:
        from pykbroker.cli.start.users import remarks as of_users

        remarks = [*of_users(settings, serving), *remarks]
    of_kafka = [line.format(settings.config.node_id) for line in LINES_OF_KAFKA] if container else []
    for text in [*remarks, *of_kafka]:
        yield JsonLine().format(record(text)) if as_json else text


def sentence(settings: Settings, serving: Serving) -> str:
    """Return the first line."""
    where = "no data is kept" if settings.memory else f"data in {', '.join(settings.data_dirs)}"
    addresses = str(Address(serving.host, serving.port))
    if len(serving.listeners) > 1:
        addresses = ", ".join(f"{name}://{address}" for name, address in serving.listeners.items())
    of_brokers = ", ".join(map(str, serving.controller_listeners.values()))
    controller = f"controller at {of_brokers}, " if of_brokers else ""
    return f"pykbroker {VERSION} is listening on {addresses} (cluster {serving.cluster_id}, {controller}{where})"


def json_line(settings: Settings, serving: Serving) -> str:
    """Return the first line as a JSON object: the fields of a log event, and the facts of the sentence."""
    event = json.loads(JsonLine().format(record(sentence(settings, serving))))
    addresses = serving.listeners.values() or [Address(serving.host, serving.port)]
    facts = {"version": VERSION, "addresses": [str(address) for address in addresses], "cluster_id": serving.cluster_id}
    return json.dumps({**event, **facts})


def record(text: str) -> logging.LogRecord:
    """Return a log event of level INFO."""
    return logger.makeRecord(logger.name, logging.INFO, "", 0, text, (), None)
