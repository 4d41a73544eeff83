"""The messages of a broker's process to the process that has started it: a line of JSON each, on a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pykbroker.core.address import Address

if TYPE_CHECKING:
    from pykbroker.core.settings import Serving


class Announcement(msgspec.Struct, frozen=True, tag=True):
    """The addresses of a broker that clients can connect to.

    `address` is that of the first listener. `listeners` has the address of each listener by name, and `controller` is
    that of the controller, None for a broker without a listener for it. `told` are sentences for the operator, such as
    the generated password of a user.
    """

    address: Address
    cluster_id: str
    listeners: Mapping[str, Address]
    controller: Address | None
    told: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Announcement({self.address})"  # what is told may be a password

    @classmethod
    def of(cls, serving: Serving, told: Iterable[str] = ()) -> Announcement:
        """Return the announcement of a broker that has started to serve."""
        controller = next(iter(serving.controller_listeners.values()), None)
        address = Address(serving.host, serving.port)
        return cls(address, serving.cluster_id, serving.listeners, controller, tuple(told))


class StartRefused(msgspec.Struct, frozen=True, tag=True):
    """The reason, a sentence, why a broker cannot start."""

    reason: str


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """A broker has stopped as it was asked to, and its process goes on."""


Message: TypeAlias = Announcement | StartRefused | Stopped

decoded = msgspec.json.Decoder[Message](Message).decode


def tell(descriptor: int, message: Message) -> None:
    """Write a message to the pipe, unless its reader has ended."""
    with suppress(BrokenPipeError):
        os.write(descriptor, msgspec.json.encode(message) + b"\n")
