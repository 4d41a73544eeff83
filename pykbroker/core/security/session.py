"""The session of a connection: its client's principal, and the address at which the client reached this broker.

A session begins when the connection is accepted, as that of `ANONYMOUS`. A log-in replaces it: `Connection.session` is
assigned. Requests get the session that the connection has when they begin, and nothing keeps it longer than a request.
"""

from __future__ import annotations

import msgspec

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not authenticated."""

ConnectionKey = tuple[str, int, str, int, int]
"""The addresses of both ends of a connection, and the time of its opening."""


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

    @property
    def connection(self) -> ConnectionKey:
        """Return a value that identifies the connection. It stays the same when a log-in replaces the session."""
        return self.client_host, self.client_port, self.local_host, self.local_port, self.opened_at

    def __str__(self) -> str:
        host = f"[{self.client_host}]" if ":" in self.client_host else self.client_host
        return f"{host}:{self.client_port}"
