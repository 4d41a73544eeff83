"""The generation of a member of a classic group."""

from __future__ import annotations

from typing import NamedTuple


class MemberGeneration(NamedTuple):
    """The generation of a member: its number or -1, the member id or an empty string, and the chosen assignor."""

    number: int = -1
    member_id: str = ""
    protocol: str | None = None


NO_GENERATION = MemberGeneration()
