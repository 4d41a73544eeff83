"""The interface that classic groups and consumer groups share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from pykbroker.core.coordinator.record import CoordinatorRecord
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribedGroup
from wire.messages.list_groups import ListedGroup


class Group(Protocol):
    """A group and its members."""

    id: str

    @property
    def members(self) -> Collection[str]:
        """Return the ids of the members."""

    @property
    def pending(self) -> Collection[str]:
        """Return member ids that were assigned to clients that have not joined yet."""

    @property
    def delete_error(self) -> ErrorCode:
        """Return the reason why the group cannot be deleted, or NONE."""

    @property
    def offset_delete_error(self) -> ErrorCode:
        """Return the reason why no offset can be deleted, or NONE."""

    def listed(self) -> ListedGroup:
        """Return the group as ListGroups lists it."""

    def described(self) -> DescribedGroup | None:
        """Return the group as DescribeGroups describes it, or None for a consumer group."""

    def subscribes(self, topic: str) -> bool:
        """Whether a member may read the topic."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raise ApiError if a member of a consumer group that fetches offsets is unknown or in another epoch."""

    def retained_since_ms(self, commit_ms: int) -> int | None:
        """Return the time from which an offset's retention counts, or None while the offset must be kept.

        `commit_ms` is the time of the commit.
        """

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group."""
