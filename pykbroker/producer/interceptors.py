"""The chain of interceptors, which see each record before it is sent and after its outcome is known (KIP-42)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from pykbroker.client.interceptors import InterceptorChain
from pykbroker.core.producer.record import ProducerRecord
from pykbroker.producer.record import ProducerColumns

T = TypeVar("T")

PRODUCER_METHODS = ("on_send", "on_acknowledgement", "on_send_many", "on_acknowledgement_many", "close")
log = logging.getLogger("pykbroker.producer")


class Interceptors(InterceptorChain):
    """Interceptors in their order. An interceptor that raises is logged and skipped.

    An interceptor may have the methods `on_send(record)`, which returns the record to send,
    `on_acknowledgement(metadata, error)`, of which one is None, and `close()`. Columns are passed whole to
    `on_send_many(columns)`, which returns those to send, and to `on_acknowledgement_many(result, error)`.
    """

    def __init__(self, interceptors: Sequence[Any]) -> None:
        super().__init__(interceptors, log)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record that the last interceptor returned."""
        for each in self._having("on_send"):
            try:
                record = checked(each.on_send(record), ProducerRecord)
            except Exception:
                log.exception("interceptor %r failed in on_send for topic %s, and is skipped", each, record.topic)
        return record

    def on_send_many(self, columns: ProducerColumns) -> ProducerColumns:
        """Return the columns that the last interceptor returned."""
        for each in self._having("on_send_many"):
            try:
                columns = checked(each.on_send_many(columns), ProducerColumns)
            except Exception:
                log.exception("interceptor %r failed in on_send_many for topic %s, and is skipped", each, columns.topic)
        return columns

    def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
        """Pass the outcome of a record to all interceptors."""
        self._call("on_acknowledgement", metadata, error)

    def on_acknowledgement_many(self, result: Any, error: BaseException | None) -> None:
        """Pass the outcome of columns to all interceptors."""
        self._call("on_acknowledgement_many", result, error)


def checked(found: Any, kind: type[T]) -> T:
    """Return what an interceptor returned. Raise TypeError if it is of another type than it must be."""
    if not isinstance(found, kind):
        raise TypeError(f"it returned {type(found).__name__} instead of a {kind.__name__}")
    return found
