"""A producer's record in two forms: with the values of the user, and serialized for a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from wire.records.record import Headers


class ProducerRecord(NamedTuple):
    """A record before it is serialized, as interceptors see it. `timestamp` is in ms since 1970, or None for now."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    headers: Iterable[tuple[str, bytes | None]] = ()
    timestamp: int | None = None


class SerializedRecord(NamedTuple):
    """A record after interceptors, serializers and all checks. `timestamp` is in ms since 1970."""

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp: int = 0


serialized_record: Callable[[tuple[Any, ...]], SerializedRecord] = partial(tuple.__new__, SerializedRecord)
"""SerializedRecord._make without its Python frame, since it is called for each record that has a key."""
