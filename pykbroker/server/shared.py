"""The objects that all connections of a listener share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from pykbroker.server.budget import Budget
from pykbroker.server.frame_pool import FramePool
from pykbroker.server.strangers import Strangers
from pykbroker.server.table import ApiTable, Route
from pykbroker.world.turns import Turns


class Tasks(Protocol):
    """The part of a nursery that connections use to run the work of a `Later`."""

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start a task, as in trio."""


class Routes(Protocol):
    """A table of APIs, in which a connection looks up each request: that of a listener, or of a log-in."""

    def __getitem__(self, key_version: int, /) -> Route:
        """Return the route of `API key << 16 | version`. Raise DecodeError or CloseConnection to end the connection."""


class Shared(msgspec.Struct):
    """The objects and limits that all connections of a listener share."""

    table: ApiTable
    tasks: Tasks
    turns: Turns
    strangers: Strangers
    budget: Budget
    request_bytes_max: int
    """The maximum size of a request frame without its size field."""
    on_closed: Callable[[Any], None]
    """A function that is called once with each connection that has closed."""
    pool: FramePool = msgspec.field(default_factory=FramePool)
    serves_last: bool = False
    """Whether the connections are served after those of all others."""
    unsent_ns: int = 0
    """The total time for which the sockets of clients did not accept all bytes of the replies."""
