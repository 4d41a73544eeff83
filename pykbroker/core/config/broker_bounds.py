"""Constraints between configs of a broker. As in Kafka, configs without effect are checked at start too."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.config.type import Value, refuse

EVERY_DIRECTORY = "*"
CODECS = range(5)


def check_broker_bounds(values: Mapping[str, Value]) -> None:
    """Raise ApiError INVALID_CONFIG, in Kafka's wording, if two configs contradict each other."""
    check_cordoned(values)
    if number(values, "log.cleaner.dedupe.buffer.size") <= number(values, "log.cleaner.threads") << 20:
        raise refuse("log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
    wait_ms = number(values, "replica.fetch.wait.max.ms")
    if wait_ms > number(values, "replica.socket.timeout.ms"):
        raise refuse(
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent "
            "unnecessary socket timeouts"
        )
    if wait_ms > number(values, "replica.lag.time.max.ms"):
        raise refuse(
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to "
            "prevent frequent changes in ISR"
        )
    delay_ms, idle_ms = (
        number(values, "connection.failed.authentication.delay.ms"),
        number(values, "connections.max.idle.ms"),
    )
    if 0 <= idle_ms <= delay_ms:
        raise refuse(
            f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
            f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out"
        )
    for config in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if values[config] not in CODECS:
            raise refuse(f"Unknown compression type id: {values[config]}")


def number(values: Mapping[str, Value], config: str) -> int:
    """Return the value of an integer config."""
    value = values[config]
    assert isinstance(value, int)
    return value


def check_cordoned(values: Mapping[str, Value]) -> None:
    """Raise ApiError for a cordoned directory that is not a log directory (KIP-1066). An asterisk alone cordons all."""
    dirs, cordoned = values["log.dirs"] or values["log.dir"], values["cordoned.log.dirs"]
    assert isinstance(dirs, tuple)
    assert isinstance(cordoned, tuple)
    if EVERY_DIRECTORY in cordoned:
        if len(cordoned) > 1:
            raise refuse("When cordoned.log.dirs is set to *, it must not contain other values")
    elif missing := [word for word in cordoned if word not in dirs]:
        raise refuse(
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )
