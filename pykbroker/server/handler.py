"""What an API is to its connection: a callable with a key and versions, and what it may know of its request."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Protocol

import msgspec

from pykbroker.world.net import Peer
from wire.api import ApiKey
from wire.declare import Response

Waiting = Coroutine[Any, Any, Response | None]
"""What a handler returns when its answer has to wait."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """A coroutine during which the connection starts no further request: something is awaited before the append.

    It may answer another one, for what is awaited after the append.
    """

    coroutine: Coroutine[Any, Any, Response | Waiting | None]


class Context(msgspec.Struct, gc=False):
    """One request as its handler sees it, beside the message itself."""

    version: int
    client_id: str | None
    peer: Peer
    principal: str = "User:ANONYMOUS"
    hurry: Callable[[], None] | None = None
    """Set by a handler that may answer sooner: called when another kind of request waits behind it."""


class CloseConnection(Exception):
    """A handler's wish to end this connection without an answer; the text is for the log."""


Answer = Response | Waiting | Held | None


class Handler(Protocol):
    """One API. None answers nothing (Produce with acks=0)."""

    key: ClassVar[ApiKey]
    versions: ClassVar[str]

    def __call__(self, context: Context, request: Any) -> Answer:
        """Answer at once, or return what will."""
