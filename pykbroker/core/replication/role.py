"""The role of a replica, which leads or follows in one leader epoch, and what clients may require of it (KIP-320)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.leading import Leading
from wire.error_codes import ErrorCode
from wire.sentinels import NO_LEADER_EPOCH

Role = Leading | Following


def require_epoch(role: Role, current_leader_epoch: int) -> None:
    """Raise ApiError FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client knows another leader epoch.

    `current_leader_epoch` is -1 if the client does not send one.
    """
    if current_leader_epoch not in (NO_LEADER_EPOCH, role.epoch):
        older = current_leader_epoch < role.epoch
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)


def require_leading(role: Role, current_leader_epoch: int = NO_LEADER_EPOCH) -> Leading:
    """Return the leadership. Raise ApiError if the role has another leader epoch, or if this broker does not lead."""
    require_epoch(role, current_leader_epoch)
    if isinstance(role, Following):
        raise ApiError(role.absence)
    return role


def require_led_in(role: Role, epoch: int) -> Leading:
    """Return the leadership of this leader epoch, in which records were appended.

    Raise ApiError NOT_LEADER_OR_FOLLOWER once it has ended, since the records may be lost then.
    """
    if isinstance(role, Following) or role.epoch != epoch:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return role
