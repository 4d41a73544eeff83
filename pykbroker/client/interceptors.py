"""A chain of interceptors of a client, which see its records before and after it does (KIP-42)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any


class InterceptorChain:
    """Interceptors in their order. An interceptor that raises is logged and skipped."""

    def __init__(self, interceptors: Sequence[Any], logger: logging.Logger) -> None:
        self._interceptors, self._logger = interceptors, logger

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def close(self) -> None:
        self._call("close")

    def _call(self, method: str, *args: Any) -> None:
        for each in self._having(method):
            try:
                getattr(each, method)(*args)
            except Exception:
                self._logger.exception("interceptor %r failed in %s, and is skipped", each, method)

    def _having(self, method: str) -> list[Any]:
        return [each for each in self._interceptors if hasattr(each, method)]
