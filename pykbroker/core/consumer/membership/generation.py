"""The generation of a member of a classic group."""

from __future__ import annotations

from typing import NamedTuple

from wire.sentinels import NO_GENERATION_ID


class MemberGeneration(NamedTuple):
    """The generation of a member: its number, the member id or an empty string, and the chosen assignor."""

    number: int = NO_GENERATION_ID
    member_id: str = ""
    protocol: str | None = None


NO_GENERATION = MemberGeneration()
