"""The chain of interceptors, which see records before the user and offsets after a commit (KIP-42)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from trio.lowlevel import disable_ki_protection

from pykbroker.client.interceptors import InterceptorChain

CONSUMER_METHODS = ("on_consume", "on_commit", "close")
log = logging.getLogger("pykbroker.consumer")


class ConsumerInterceptors(InterceptorChain):
    """Interceptors in their order. An interceptor that raises is logged and skipped.

    An interceptor may have the methods `on_consume(records)`, which returns the records for the user,
    `on_commit(offsets)` and `close()`.
    """

    def __init__(self, interceptors: Sequence[Any]) -> None:
        super().__init__(interceptors, log)

    @disable_ki_protection
    def on_consume(self, records: Any) -> Any:
        """Return the records that the last interceptor returned."""
        for each in self._having("on_consume"):
            try:
                records = each.on_consume(records)
            except Exception:
                log.exception("interceptor %r failed in on_consume, and is skipped", each)
        return records

    def on_commit(self, offsets: Any) -> None:
        """Pass the offsets of a successful commit to all interceptors."""
        self._call("on_commit", offsets)
