"""A member of a classic group: its protocols, its assignment, and its waiting requests."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from pykbroker.core.outcome import Token

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols of a member as (name, metadata), the preferred one first. The metadata is for the group's leader."""


class ClassicMember(msgspec.Struct):
    """A member of a classic group.

    `is_new` is true until its first generation. `joining` and `syncing` are the tokens of its waiting JoinGroup and
    SyncGroup.
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joining: Token | None = None
    syncing: Token | None = None

    @property
    def awaits_answer(self) -> bool:
        """Whether a request of the member waits for its response. The member cannot send heartbeats meanwhile."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for this protocol, or an empty value if the member does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Container[str]) -> str:
        """Return the member's preferred protocol among the candidates, all of which it supports."""
        return next(name for name, _ in self.protocols if name in candidates)
