"""A member of a classic group: its protocols, its assignment, and its parked callers."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from pykbroker.core.outcome import Token

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of a member's protocols, the preferred one first. The metadata is for the group's leader."""


class ClassicMember(msgspec.Struct):
    """A member of a classic group.

    `is_new` holds until its first generation; `joining` and `syncing` are parked callers.
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
        """Whether the member has a parked caller. It then cannot send heartbeats and need not."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for this protocol; empty if it does not support the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Container[str]) -> str:
        """Return the member's preferred protocol among the candidates, all of which it supports."""
        return next(name for name, _ in self.protocols if name in candidates)
