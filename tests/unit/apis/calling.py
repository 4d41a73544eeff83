"""Calls of a handler without a connection, by a client with limited rights."""

from __future__ import annotations

from typing import Any

from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from pykbroker.core.steps import finish
from pykbroker.server.handler import Later, RequestContext, resolve

SESSION = Session("127.0.0.1", 1, "127.0.0.1", 9092, "PLAINTEXT", 0)


class Denies:
    """An authorizer that denies these operations to everybody."""

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def allows(self, session: Session, operation: Operation, resource: ResourceType, name: str) -> bool:
        return operation not in self._operations

    def allows_somewhere(self, session: Session, operation: Operation, resource: ResourceType) -> bool:
        return operation not in self._operations


def context(version: int) -> RequestContext:
    """Return the context of a request in this version from this host."""
    return RequestContext(version, "test", SESSION)


def work_of(answer: Any) -> Any:
    """Return the coroutine or the steps of an answer that is not ready yet, or else the answer itself."""
    return answer.work if isinstance(answer, Later) else answer


def gone_through(answer: Any) -> Any:
    """Return the handler's response, running its steps if it has any."""
    return finish(resolve(answer)) if isinstance(answer, Later) else answer
