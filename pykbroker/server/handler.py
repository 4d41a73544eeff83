"""The interface of an API: the handler, the request context that it is given, and the answers that it may return."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, final

import msgspec

from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps
from wire.api import ApiKey
from wire.declare import Response
from wire.error_codes import ErrorCode


class EncodedResponse(Response):
    """A response that is already encoded, in the version of the request."""

    parts: list[Any]


class NoResponse(Response):
    """The type of `NO_RESPONSE`."""


NO_RESPONSE = NoResponse()
"""The result of a request to which the broker sends no response: Produce with acks=0."""


@final
class Later(msgspec.Struct, frozen=True, gc=False):
    """An answer that is not ready yet: the work that leads to it.

    A coroutine runs as a task. Steps are run in shares of the loop; the first share is run at once.
    """

    work: Coroutine[Any, Any, Answer] | Steps[Answer]
    holds_connection: bool
    """Whether the connection starts no further request before the work has ended.

    The work may end with another `Later`, which holds the connection only if the connection is still held.
    """


Answer = Response | Later


def now_or_later(result: Answer | Coroutine[Any, Any, Answer] | Steps[Answer]) -> Answer:
    """Return an answer unchanged, and work as a `Later`. Only steps hold the connection."""
    if isinstance(result, Response | Later):
        return result
    return Later(result, holds_connection=isinstance(result, Generator))


def resolve(later: Later) -> Steps[Answer]:
    """Run steps, and the steps to which they lead."""
    answer: Answer = later
    while isinstance(answer, Later) and isinstance(answer.work, Generator):
        answer = yield from answer.work
    return answer


class RequestContext(msgspec.Struct, gc=False):
    """The facts about one request that are not part of its message."""

    version: int
    client_id: str | None
    session: Session
    hurry: Callable[[], None] | None = None
    """A parked Fetch's function that makes it respond with the records that it has; None for all other requests.

    The connection calls it when a request of another API arrives behind the Fetch.
    """


class CloseConnection(Exception):
    """Raised by a handler to close the connection without a response; the text is logged."""


class Handler:
    """The base class of all handlers: each serves some versions of one API."""

    __slots__ = ()

    key: ClassVar[ApiKey]
    versions: ClassVar[str]

    @abstractmethod
    def __call__(self, context: RequestContext, request: Any) -> Answer:
        """Handle a request."""

    def handle_large(self, context: RequestContext, request: Any) -> Answer:
        """Handle a request of `LARGE_FRAME_BYTES` or more.

        An API whose usual requests are small and frequent may override this to handle a large request in steps.
        """
        return self(context, request)

    def refuse(self, request: Any, code: ErrorCode) -> Response | None:
        """Return the response to a request that failed as a whole.

        None, the default, stands for a response that carries only the top-level error code.
        """
        return None
