"""The options of a query that reads, with the names and the defaults of Spark's format `kafka`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.pipeline.source.client_options import PREFIX, consumer_options
from pykbroker.pipeline.source.errors import InvalidOption, log
from pykbroker.pipeline.source.offset_limits import (
    EARLIEST,
    ENDING,
    LATEST,
    STARTING,
    EveryPartition,
    OffsetLimit,
    check_batch_limits,
    parse_limit,
)
from pykbroker.pipeline.source.offset_ranges import Division
from pykbroker.pipeline.source.read_limits import DELAY_S_MAX, TriggerLimits, check_limits, duration_s
from pykbroker.pipeline.source.topic_selection import TopicSelection, parse_selection

KNOWN = frozenset(
    """
    subscribe subscribepattern assign startingtimestamp startingoffsetsbytimestamp startingoffsets endingtimestamp
    endingoffsetsbytimestamp endingoffsets startingoffsetsbytimestampstrategy failondataloss minpartitions
    maxrecordsperpartition includeheaders includetimestampms kafkaconsumer.polltimeoutms fetchoffset.numretries
    fetchoffset.retryintervalms groupidprefix maxoffsetspertrigger minoffsetspertrigger maxtriggerdelay path
    """.split()
)
INCLUDE_TIME = "includeTimestampMs"
"""The option of the column `timestamp_ms`, which Spark's format has not."""
POLL_TIMEOUT_MS = 120_000
"""The default of `kafkaConsumer.pollTimeoutMs`: that of `spark.network.timeout`."""


class ReadOptions(msgspec.Struct, frozen=True):
    """The options of a query that reads. `consumer` has the settings of its consumers."""

    selection: TopicSelection
    consumer: Mapping[str, str]
    starting: OffsetLimit
    ending: OffsetLimit
    division: Division
    fails_on_loss: bool = True
    has_headers: bool = False
    """Whether rows have the column `headers`."""
    has_time_ms: bool = False
    """Whether rows have the column `timestamp_ms`."""
    poll_timeout_s: float = POLL_TIMEOUT_MS / 1000
    attempts: int = 3
    """The attempts of a look-up that fails, and the pause between two of them."""
    retry_s: float = 1.0
    limits: TriggerLimits = TriggerLimits()
    """The limits of a micro-batch."""

    def __repr__(self) -> str:
        return f"ReadOptions({self.selection})"  # settings of a consumer may be passwords


def batch_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of a batch query, from names in lower case. Raise InvalidOption."""
    starting, ending = parse_limit(options, STARTING, EARLIEST), parse_limit(options, ENDING, LATEST)
    check_batch_limits(starting, ending)
    return _options(options, starting, ending, TriggerLimits())


def stream_options(options: Mapping[str, str]) -> ReadOptions:
    """Return the options of a stream, from names in lower case. Raise InvalidOption."""
    for name in ENDING:
        if name.lower() in options:
            what = "offset" if name == ENDING.offsets else "timestamp"
            raise InvalidOption(f"ending {what} not valid in streaming queries: leave out {name}")
    delay = options.get("maxtriggerdelay")
    limits = TriggerLimits(
        positive(options, "maxOffsetsPerTrigger"),
        positive(options, "minOffsetsPerTrigger"),
        DELAY_S_MAX if delay is None else duration_s("maxTriggerDelay", delay),
    )
    check_limits(limits)
    return _options(options, parse_limit(options, STARTING, LATEST), EveryPartition(LATEST), limits)


def _options(
    options: Mapping[str, str], starting: OffsetLimit, ending: OffsetLimit, limits: TriggerLimits
) -> ReadOptions:
    selection = parse_selection(options)
    for name in options:
        if name not in KNOWN and not name.startswith(PREFIX):
            log.warning("the option '%s' is unknown and has no effect", name)
    return ReadOptions(
        selection,
        consumer_options(options),
        starting,
        ending,
        Division(positive(options, "minPartitions"), positive(options, "maxRecordsPerPartition")),
        truth(options, "failOnDataLoss", default=True),
        truth(options, "includeHeaders", default=False),
        truth(options, INCLUDE_TIME, default=False),
        (positive(options, "kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS) / 1000,
        positive(options, "fetchOffset.numRetries") or 3,
        (1000 if (pause := integer(options, "fetchOffset.retryIntervalMs")) is None else pause) / 1000,
        limits,
    )


def truth(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return an option that is true or false. Raise InvalidOption."""
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidOption(f"{name}={text} is not allowed: use true or false")
    return text.lower() == "true"


def integer(options: Mapping[str, str], name: str) -> int | None:
    """Return an option that is an integer, or None without it. Raise InvalidOption."""
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidOption(f"{name}={text} is not allowed: use an integer") from None


def positive(options: Mapping[str, str], name: str) -> int | None:
    """Return an option that is a positive integer, or None without it. Raise InvalidOption."""
    found = integer(options, name)
    if found is not None and found <= 0:
        raise InvalidOption(f"{name} must be positive")
    return found
