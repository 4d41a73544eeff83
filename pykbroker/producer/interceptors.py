"""The chain of interceptors, which see each record before it is sent and after its outcome is known (KIP-42)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pykbroker.producer.record import ProducerRecord

log = logging.getLogger("pykbroker.producer")


class Interceptors:
    """Interceptors in their order. An interceptor that raises is logged and skipped.

    An interceptor may have the methods `on_send(record)`, which returns the record to send,
    `on_acknowledgement(metadata, error)`, of which one is None, and `close()`.
    """

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._interceptors = interceptors

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record that the last interceptor returned."""
        for each in self._having("on_send"):
            try:
                record = each.on_send(record)
            except Exception:
                log.exception("interceptor %r failed in on_send for topic %s, and is skipped", each, record.topic)
        return record

    def on_acknowledgement(self, metadata: Any, error: BaseException | None) -> None:
        """Pass the outcome of a record to all interceptors."""
        for each in self._having("on_acknowledgement"):
            try:
                each.on_acknowledgement(metadata, error)
            except Exception:
                log.exception("interceptor %r failed in on_acknowledgement, and is skipped", each)

    def close(self) -> None:
        """Close all interceptors."""
        for each in self._having("close"):
            try:
                each.close()
            except Exception:
                log.exception("interceptor %r failed in close, and is skipped", each)

    def _having(self, method: str) -> list[Any]:
        return [each for each in self._interceptors if hasattr(each, method)]
