"""Helpers that call a handler without a connection, as a client with limited rights."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from msgspec.structs import replace

from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import UNNAMED, Authorizer, Purpose, Session
from pykbroker.core.steps import finish
from pykbroker.server.handler import Later, RequestContext, resolve

SESSION = Session("127.0.0.1", 1, "127.0.0.1", 9092, "PLAINTEXT", 0)


class Denies:
    """An authorizer that denies the given operations to every client."""

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        return operation not in self._operations

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        return operation not in self._operations

    def basis(self, session: Session) -> Hashable:
        return None

    def logs_allowed(self) -> bool:
        return False


def context(version: int, authorizer: Authorizer | None = None) -> RequestContext:
    """Return the context of a request of the given version from a client at 127.0.0.1."""
    return RequestContext(version, "test", SESSION if authorizer is None else replace(SESSION, authorizer=authorizer))


def work_of(answer: Any) -> Any:
    """Return the coroutine or steps of a response that is not ready, or else the response itself."""
    return answer.work if isinstance(answer, Later) else answer


def gone_through(answer: Any) -> Any:
    """Return the handler's response, after running its steps if it is not ready at once."""
    return finish(resolve(answer)) if isinstance(answer, Later) else answer
