"""A handler called without a connection, by a client that may not do everything."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.server.handler import RequestContext
from pykbroker.world.net import Peer


class Denies:
    """An authorizer that refuses these operations to everybody."""

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def allows(self, principal: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        return operation not in self._operations

    def allows_somewhere(self, principal: str, operation: Operation, resource: ResourceType) -> bool:
        return operation not in self._operations


def context(version: int) -> RequestContext:
    """A request of this version, from this machine."""
    return RequestContext(version, "test", Peer("127.0.0.1", 1, "127.0.0.1", 9092))


def gone_through(answer: Any) -> Any:
    """The answer to which steps lead, or the one that there is at once."""
    if not isinstance(answer, Generator):
        return answer
    try:
        while True:
            next(answer)
    except StopIteration as finished:
        return finished.value
