"""The session of a connection: its client's principal, and the address at which the client reached this broker."""

from __future__ import annotations

import msgspec

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not authenticated."""


class Session(msgspec.Struct, frozen=True, gc=False):
    """The facts about one connection that all of its requests share.

    `local_host` and `local_port` are the broker's address that the client connected to. `opened_at` is the time of the
    connection, in ns of a monotonic clock.
    """

    client_host: str
    client_port: int
    local_host: str
    local_port: int
    listener: str
    opened_at: int
    principal: str = ANONYMOUS

    def __str__(self) -> str:
        host = f"[{self.client_host}]" if ":" in self.client_host else self.client_host
        return f"{host}:{self.client_port}"
