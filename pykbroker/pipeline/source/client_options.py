"""The options `kafka.*` of a query: the settings of its consumer or producer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pykbroker.client.security_settings import split_security
from pykbroker.client.settings import ClientSettings, InvalidSetting
from pykbroker.consumer.settings import ConsumerSettings, consumer_settings
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.producer.settings import ProducerSettings, producer_settings

PREFIX = "kafka."
OF_SECURITY = ("security.", "ssl.", "sasl.")
WITHOUT_EFFECT = frozenset(
    """
    allow.auto.create.topics auto.include.jmx.reporter client.dns.lookup config.providers enable.metrics.push
    max.poll.interval.ms max.poll.records metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes security.providers send.buffer.bytes
    """.split()
)
"""The settings of Kafka's clients that are accepted and change nothing here."""
OF_GROUPS = frozenset(
    """
    auto.commit.interval.ms exclude.internal.topics group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms internal.leave.group.on.close partition.assignment.strategy session.timeout.ms
    """.split()
)
"""The settings of groups, which are accepted and change nothing, since a query reads without a group."""
NOT_FOR_READING = {
    "auto.offset.reset": "set the option startingOffsets, which says where a query starts",
    "key.deserializer": "keys are read as binary; deserialize them with operations on the data frame",
    "value.deserializer": "values are read as binary; deserialize them with operations on the data frame",
    "enable.auto.commit": "Spark keeps the offsets of a query itself",
    "interceptor.classes": "an interceptor could change the records",
}
"""The settings of Kafka's consumer that are refused, with the reason."""
NOT_FOR_WRITING = {
    "key.serializer": "keys are written as binary; serialize them with operations on the data frame",
    "value.serializer": "values are written as binary; serialize them with operations on the data frame",
    "interceptor.classes": "an interceptor is a Java class, and this producer is not written in Java",
    "transactional.id": "tasks cannot share a transaction; `pykbroker pipeline replay` writes in transactions",
    "partitioner.class": "a partitioner is a Java class; set the column partition instead",
}
"""The settings of Kafka's producer that are refused, with the reason."""
FETCH_BYTES = {"fetch.max.bytes": str(50 << 20), "max.partition.fetch.bytes": str(4 << 20)}
"""The default size of fetches. A task reads one partition, so it may ask for more of it than Kafka's default."""
BATCH_BYTES = {"batch.size": str(256 << 10)}
"""The default size of batches. A task has many rows at once, so that larger batches than Kafka's default fill up."""


def consumer_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the consumer, from options with names in lower case. Raise InvalidOption."""
    given = _given(options, NOT_FOR_READING, "consumer")
    kept = {name: value for name, value in given.items() if name not in WITHOUT_EFFECT | OF_GROUPS}
    settings = {**FETCH_BYTES, **kept, "auto.offset.reset": "none", "allow.auto.create.topics": "false"}
    _check(settings, ConsumerSettings)
    return settings


def producer_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the producer, from options with names in lower case. Raise InvalidOption."""
    given = _given(options, NOT_FOR_WRITING, "producer")
    kept = {name: value for name, value in given.items() if name not in WITHOUT_EFFECT}
    settings = {**BATCH_BYTES, **kept}
    _check(settings, ProducerSettings)
    return settings


def job_producer(options: Mapping[str, str], bootstrap: str) -> dict[str, str]:
    """Return the settings of the producer of a job, from options `kafka.*`. Raise PipelineError for wrong ones."""
    given = {name.lower(): value for name, value in options.items()}
    if wrong := [name for name in given if not name.startswith(PREFIX)]:
        raise PipelineError(f"{wrong[0]} is no setting of the producer: its settings have the prefix {PREFIX}")
    try:
        return producer_options({**given, f"{PREFIX}bootstrap.servers": bootstrap})
    except InvalidOption as error:
        raise PipelineError(str(error)) from None


def security_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS and SASL among options `kafka.*`, in Kafka's names."""
    return secured({name.lower().removeprefix(PREFIX): value for name, value in options.items() if is_setting(name)})


def secured(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS and SASL among those of a client, in Kafka's names."""
    return {each: settings[each] for each in settings if each.startswith(OF_SECURITY) and each not in WITHOUT_EFFECT}


def is_setting(name: str) -> bool:
    """Whether an option is a setting of a consumer or a producer."""
    return name.lower().startswith(PREFIX)


def _given(options: Mapping[str, str], refused: Mapping[str, str], kind: str) -> dict[str, str]:
    given = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
    for name in given:
        if name in refused:
            raise InvalidOption(f"Kafka option '{name}' is not supported: {refused[name]}")
    if "bootstrap.servers" not in given:
        raise InvalidOption(f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {kind}")
    return given


def _check(settings: Mapping[str, str], kind: type[ClientSettings]) -> None:
    """Raise InvalidOption for a setting that is unknown or has a value that is not allowed."""
    try:
        (consumer_settings if kind is ConsumerSettings else producer_settings)(settings)
    except InvalidSetting as error:
        known: Collection[str] = {field.name for field in msgspec.structs.fields(kind)}
        _, named = split_security({name.replace(".", "_"): name for name in settings})
        unknown = [name for underscored, name in named.items() if underscored not in known]
        names = f" (kafka.{unknown[0]})" if unknown else ""
        raise InvalidOption(f"kafka.*: {error}{names}") from None
