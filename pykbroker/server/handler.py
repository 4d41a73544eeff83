"""The interface of an API's handler, with the context that it gets and the answers that it may return."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, final

import msgspec

from pykbroker.core.security.rights import RIGHTS, Decisions
from pykbroker.core.security.session import Session
from pykbroker.core.steps import Steps
from pykbroker.server.ending import ConnectionEnding
from wire.api import KEYS, VERSIONS, ApiKey
from wire.declare import Response


class EncodedResponse(Response):
    """A response that is already encoded, in the version of the request."""

    parts: list[Any]


class NoResponse(Response):
    """The type of `NO_RESPONSE`."""


NO_RESPONSE = NoResponse()
"""The result of a request to which the broker sends no response: Produce with acks=0."""


@final
class Later(msgspec.Struct, frozen=True, gc=False):
    """An answer that is not ready yet: the work whose result is the response.

    A coroutine runs as a task. A generator (`Steps`) runs in time slices of the event loop, the first of them at once.
    """

    work: Coroutine[Any, Any, Answer] | Steps[Answer]
    holds_connection: bool
    """Whether the connection is blocked: it starts no further request before the work has ended.

    The work may return another `Later`, which can block the connection only if the connection is still blocked.
    """
    awaits_node: bool = False
    """Whether the work waits for another node, as a forwarded request waits for the controller.

    A blocked connection then does not count towards `queued.max.requests`. Otherwise one silent node would stop this
    broker from serving all others: Kafka's request handlers do not wait for other nodes either.
    """


Answer = Response | Later


def now_or_later(result: Answer | Coroutine[Any, Any, Answer] | Steps[Answer]) -> Answer:
    """Return an answer unchanged, and wrap work in a `Later`. Only a generator blocks the connection."""
    if isinstance(result, Response | Later):
        return result
    return Later(result, holds_connection=isinstance(result, Generator))


def resolve(later: Later) -> Steps[Answer]:
    """Run a generator to its end, and then every further generator that it returns."""
    answer: Answer = later
    while isinstance(answer, Later) and isinstance(answer.work, Generator):
        answer = yield from answer.work
    return answer


class RequestContext(msgspec.Struct, gc=False):
    """The context of a request: the facts about it that are not part of its message."""

    version: int
    client_id: str | None
    session: Session
    hurry: Callable[[], None] | None = None
    """A function that makes a waiting Fetch respond with the records that it has. None for all other requests.

    The connection calls it when a request of another API arrives after the Fetch.
    """
    from_node: bool = False
    """Whether another node has sent the request, as the handler of Fetch finds out."""
    decisions: Decisions | None = None
    """The decisions of the authorizer for this request so far."""


class CloseConnection(Exception):
    """An exception that a handler raises to close the connection. Its text is logged.

    The connection ends without a response, or after the response `answer`, which only the work of a `Later` may set.
    """

    def __init__(
        self,
        reason: str = "",
        answer: Response | None = None,
        ending: ConnectionEnding = ConnectionEnding.REFUSED_REQUEST,
    ) -> None:
        super().__init__(reason)
        self.answer, self.ending = answer, ending


class Handler:
    """The base class of all handlers: each serves some versions of one API, which has an entry in `RIGHTS`."""

    __slots__ = ()

    key: ClassVar[ApiKey]
    versions: ClassVar[str]

    def __init_subclass__(cls) -> None:
        key = cls.__dict__.get("key")
        if isinstance(key, ApiKey) and key not in RIGHTS:
            raise TypeError(f"{cls.__name__}: core/security/rights.py has no entry for {key.name}")

    @abstractmethod
    def __call__(self, context: RequestContext, request: Any) -> Answer: ...

    def handle_large(self, context: RequestContext, request: Any) -> Answer:
        """Handle a request of at least `LARGE_FRAME_BYTES`.

        An API whose requests are usually small and frequent overrides this method to let other tasks run during a large
        request.
        """
        return self(context, request)


class ApiHandler(Handler, msgspec.Struct, frozen=True):
    """The handler of the API that its class is named after, in all versions. Its fields are its dependencies."""

    def __init_subclass__(cls) -> None:
        cls.key = KEYS[cls.__name__]
        cls.versions, _ = VERSIONS[cls.key]
        super().__init_subclass__()
