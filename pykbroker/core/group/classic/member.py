"""A member of a classic group: what it said of itself, what it was assigned, and whether it waits for an answer."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from pykbroker.core.outcome import Token

Protocols = tuple[tuple[str, bytes], ...]
"""Names, the one it likes best first, with what the leader shall know of it under that name."""


@dataclass(slots=True)
class ClassicMember:
    """`is_new` until its first generation. `joining` and `syncing` are the callers that are parked."""

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
        """Who is parked cannot send heartbeats, and need not."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it said of itself under this name."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Container[str]) -> str:
        """The one it likes best; all candidates are known to every member."""
        return next(name for name, _ in self.protocols if name in candidates)
