"""A group of either protocol, as the parts that are the same for both see it."""

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
        """Return member ids that were given out and have not joined yet."""

    @property
    def delete_error(self) -> ErrorCode:
        """Return why the group cannot be deleted, or NONE."""

    @property
    def offset_delete_error(self) -> ErrorCode:
        """Return why no offset can be deleted, or NONE."""

    def listed(self) -> ListedGroup:
        """Return the group as ListGroups lists it."""

    def described(self) -> DescribedGroup | None:
        """Return the group as DescribeGroups describes it; None for a group of the consumer protocol."""

    def subscribes(self, topic: str) -> bool:
        """Whether a member may read the topic."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check who fetches offsets. ApiError: a member of the consumer protocol is unknown or in another epoch."""

    def retained_since_ms(self, commit_ms: int) -> int | None:
        """Return since when an offset that was committed at `commit_ms` is retained; None while it is not to expire."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the records that delete the group."""
