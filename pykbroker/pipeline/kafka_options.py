"""The options of `--kafka`: those of Spark's `kafka` format, and the settings of its clients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Literal

import msgspec

from pykbroker.client.security_settings import OF_JAVA
from pykbroker.consumer.settings import ConsumerSettings
from pykbroker.pipeline.source.client_options import (
    NOT_FOR_READING,
    NOT_FOR_WRITING,
    OF_GROUPS,
    PREFIX,
    WITHOUT_EFFECT,
    is_setting,
)
from pykbroker.pipeline.source.read_options import KNOWN
from pykbroker.producer.settings import ProducerSettings

Use = Literal["stream", "batch", "write"]
"""The work of a job with topics: it reads them as a stream or in a batch, or writes them."""
OF_STREAMS = {"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"}
READ_OPTIONS = KNOWN - {"path"}


def _names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name.replace("_", ".") for field in msgspec.structs.fields(kind)}


SECURITY = {name.replace("_", ".") for name in OF_JAVA}
CONSUMER = _names(ConsumerSettings) | SECURITY | WITHOUT_EFFECT | OF_GROUPS | NOT_FOR_READING.keys()
PRODUCER = _names(ProducerSettings) | SECURITY | NOT_FOR_WRITING.keys()


def refusal(name: str, uses: Collection[Use]) -> str:
    """Return why a job cannot take an option, or nothing."""
    lower, reads = name.lower(), not {"stream", "batch"}.isdisjoint(uses)
    if is_setting(lower):
        return _refused_setting(lower.removeprefix(PREFIX), reads=reads, writes="write" in uses)
    if not reads:
        return "the job reads no topics: give a setting of its producer, such as kafka.compression.type=lz4"
    if lower not in READ_OPTIONS:
        return f"Spark's format kafka has no such option{_guess(lower, READ_OPTIONS)}"
    return "the job reads no stream" if lower in OF_STREAMS and "stream" not in uses else ""


def _refused_setting(name: str, *, reads: bool, writes: bool) -> str:
    advice = {**(NOT_FOR_READING if reads else {}), **(NOT_FOR_WRITING if writes else {})}
    known = (CONSUMER if reads else set()) | (PRODUCER if writes else set())
    if name in advice:
        return advice[name]
    return "" if name in known else f"Kafka's clients have no such setting for this job{_guess(name, known)}"


def _guess(name: str, known: Collection[str]) -> str:
    found = get_close_matches(name, known, 1)
    return f": do you mean {found[0]}?" if found else ""


def of_reader(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for the reader of a job that reads and writes."""
    return {name: value for name, value in options.items() if not is_setting(name) or _setting(name) in CONSUMER}


def of_producer(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options for the producer of a job that reads and writes."""
    return {name: value for name, value in options.items() if is_setting(name) and _setting(name) in PRODUCER}


def _setting(name: str) -> str:
    return name.lower().removeprefix(PREFIX)
