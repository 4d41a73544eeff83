"""What an API is to its connection: a callable with a key and versions, and what it may know of its request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, Protocol

import msgspec

from pykbroker.world.net import Peer
from wire.api import ApiKey
from wire.declare import Response


class Encoded(msgspec.Struct, frozen=True, gc=False):
    """A response that is encoded already, for the version that was asked for."""

    parts: list[Any]


Result = Response | Encoded | None
HandlerSteps = Generator[None, None, "Result | Waiting"]
"""What a handler returns that goes through many things: it yields where others may have their turn."""
Waiting = Coroutine[Any, Any, Result | HandlerSteps]
"""What it returns when its answer has to wait."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """A coroutine during which the connection starts no further request: something is awaited before the append.

    It may answer another one, for what is awaited after the append, or steps that are to be gone through.
    """

    coroutine: Coroutine[Any, Any, Result | Waiting | HandlerSteps]


class RequestContext(msgspec.Struct, gc=False):
    """One request as its handler sees it, beside the message itself."""

    version: int
    client_id: str | None
    peer: Peer
    principal: str = "User:ANONYMOUS"
    hurry: Callable[[], None] | None = None
    """Set by a handler that may answer sooner: called when another kind of request waits behind it."""


class CloseConnection(Exception):
    """A handler's wish to end this connection without an answer; the text is for the log."""


Answer = Result | Waiting | Held | HandlerSteps


class Handler(Protocol):
    """One API. None answers nothing (Produce with acks=0).

    One for which steps cost too much may have a method `slowly` for requests that are large.
    """

    key: ClassVar[ApiKey]
    versions: ClassVar[str]

    def __call__(self, context: RequestContext, request: Any) -> Answer:
        """Answer at once, or return what will."""
