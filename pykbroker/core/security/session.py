"""The session of a connection: its client's principal and authorizer, and the broker's address that it has reached.

A session begins when the connection is accepted, as that of `ANONYMOUS`. A log-in replaces it: `Connection.session` is
assigned. Requests get the session that the connection has when they begin, and nothing keeps it longer than a request,
apart from a group that matches topics with a regular expression (`rights.asked_later`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import msgspec

from pykbroker.core.security.operation import Operation, ResourceType
from wire.api import ApiKey

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not authenticated."""

ConnectionKey = tuple[str, int, str, int, int]
"""The addresses of both ends of a connection, and the time of its opening."""


class Purpose(msgspec.Struct, frozen=True, gc=False):
    """The purpose of a decision, for the audit log.

    `api` is the API of the request. `grants` is whether the client gets access if the decision is positive, and
    `refuses` whether the client asked for the resource by name and gets an error if it is negative. A filter, such as
    the topics of a Metadata request for all topics, does not refuse; a bit field of allowed operations (KIP-430)
    neither grants nor refuses. These are `logIfAllowed` and `logIfDenied` of Kafka's `Action`.
    """

    api: ApiKey | None = None
    grants: bool = True
    refuses: bool = True


UNNAMED = Purpose()
"""The purpose of a decision whose caller does not name its API."""


class Authorizer(Protocol):
    """An authorizer. It decides by resource name: a topic, a group id, a transactional id, or CLUSTER_NAME.

    `purpose` and `count`, the number of times that the request names the resource, are for the audit log only.
    """

    def allows(
        self,
        session: Session,
        operation: Operation,
        resource: ResourceType,
        name: str,
        purpose: Purpose = UNNAMED,
        count: int = 1,
    ) -> bool:
        """Whether the client of `session` may perform the operation on this resource."""

    def allows_somewhere(
        self, session: Session, operation: Operation, resource: ResourceType, purpose: Purpose = UNNAMED
    ) -> bool:
        """Whether the client of `session` may perform the operation on any resource of this type, existing or not."""

    def basis(self, session: Session) -> Hashable:
        """Return the facts about a session that decide on its rights. Sessions with an equal basis have equal rights.

        What is cached for clients is cached by it.
        """

    def logs_allowed(self) -> bool:
        """Whether positive decisions are logged. Every request is then decided anew."""


class Session(msgspec.Struct, frozen=True, gc=False):
    """The facts about one connection that all of its requests share.

    `local_host` and `local_port` are the broker's address that the client connected to. `opened_at` is the time of the
    connection, in ns of a monotonic clock. `client_port` is 0 for a request that another broker forwards (KIP-590).
    """

    client_host: str
    client_port: int
    local_host: str
    local_port: int
    listener: str
    opened_at: int
    principal: str = ANONYMOUS
    authorizer: Authorizer | None = None
    """The authorizer of this client. None allows every operation, and a request then has nothing to ask."""
    tls: tuple[str, str] | None = None
    """The version of TLS, and the cipher suite by its IANA name. None stands for no TLS, or none yet."""

    @property
    def connection(self) -> ConnectionKey:
        """Return a value that identifies the connection. It stays the same when a log-in replaces the session."""
        return self.client_host, self.client_port, self.local_host, self.local_port, self.opened_at

    @property
    def basis(self) -> Hashable:
        """Return what decides on the rights of the client, beside its listener: what is cached is cached by it."""
        return None if self.authorizer is None else self.authorizer.basis(self)

    @property
    def is_audited(self) -> bool:
        """Whether each decision about the client is logged, so that no response to it comes from a cache."""
        return self.authorizer is not None and self.authorizer.logs_allowed()

    def __str__(self) -> str:
        host = f"[{self.client_host}]" if ":" in self.client_host else self.client_host
        return f"{host}:{self.client_port}" if self.client_port else f"{host} (by another broker)"
