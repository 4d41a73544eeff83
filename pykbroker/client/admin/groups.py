"""The groups of a cluster: their list, descriptions and deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import trio

from pykbroker.client.admin.admin import Admin, check
from pykbroker.client.admin.group_description import (
    CLASSIC,
    CONSUMER,
    TYPES_VERSION,
    GroupDescription,
    described,
    described_classic,
    described_consumer,
    group_type,
)
from pykbroker.client.brokers import Brokers
from pykbroker.client.connection import BrokerConnection
from pykbroker.client.errors import UnsupportedVersion
from pykbroker.client.group_coordinators import AVAILABLE_S_MAX, RETRIABLE, RETRY_S, GroupCoordinators, refusal
from pykbroker.core.errors import ApiError
from wire.api import ApiKey
from wire.messages.delete_groups import DeleteGroupsRequest
from wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

STATES_VERSION = 4
"""The first version of ListGroups with the states of groups."""


class GroupListing(NamedTuple):
    """A group as its coordinator lists it.

    `protocol` is None if the group has never had members. `members` is the number of members, and None for a group of
    another type than Classic and Consumer.
    """

    group: str
    type: str
    state: str
    protocol: str | None
    coordinator: int
    members: int | None


async def list_groups(admin: Admin, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
    """Return the groups of all coordinators, sorted by id. Empty filters let all groups pass.

    Raise ApiError if a coordinator refuses.
    """
    brokers, found = Brokers(admin), []
    try:
        for node_id, connection in (await brokers.connections()).items():
            answer = await listed(connection, ListGroupsRequest(list(states), list(types)))
            check(answer.error_code, f"groups of broker {node_id}")
            counts = await member_counts(connection, answer.groups)
            found += [
                GroupListing(
                    each.group_id,
                    group_type(each.group_type),
                    each.group_state,
                    each.protocol_type or None,
                    node_id,
                    counts.get(each.group_id),
                )
                for each in answer.groups
            ]
    finally:
        brokers.close()
    return sorted(found, key=lambda each: each.group)


async def listed(connection: BrokerConnection, request: ListGroupsRequest) -> ListGroupsResponse:
    """Return the groups that a broker coordinates. Wait up to `AVAILABLE_S_MAX` while it loads them."""
    version = connection.newest_version(ApiKey.LIST_GROUPS)
    for name, first, given in (
        ("state", STATES_VERSION, request.states_filter),
        ("type", TYPES_VERSION, request.types_filter),
    ):
        if given and version < first:
            raise UnsupportedVersion(f"the broker cannot list groups by {name}, which needs ListGroups version {first}")
    deadline = trio.current_time() + AVAILABLE_S_MAX
    while True:
        answer = await connection.ask(request, version)
        if answer.error_code not in RETRIABLE or trio.current_time() > deadline:
            return answer
        await trio.sleep(RETRY_S)


async def member_counts(connection: BrokerConnection, groups: Sequence[ListedGroup]) -> dict[str, int]:
    """Return the number of members of each group of consumers that still exists."""
    of_type: dict[str, list[str]] = {CLASSIC: [], CONSUMER: []}
    for each in groups:
        of_type.setdefault(group_type(each.group_type), []).append(each.group_id)
    found = {
        **await described_classic(connection, of_type[CLASSIC]),
        **(await described_consumer(connection, of_type[CONSUMER]) if of_type[CONSUMER] else {}),
    }
    return {group: len(each.members) for group, each in found.items() if isinstance(each, GroupDescription)}


async def describe_groups(
    coordinators: GroupCoordinators, groups: Iterable[str]
) -> dict[str, GroupDescription | ApiError]:
    """Return the description of each group, or why there is none."""
    return await coordinators.ask(groups, described)


async def delete_groups(coordinators: GroupCoordinators, groups: Iterable[str]) -> dict[str, ApiError | None]:
    """Delete groups with their committed offsets. Return for each group None, or why it remains."""

    async def delete(connection: BrokerConnection, led: list[str]) -> Mapping[str, ApiError | None]:
        answer = await connection.ask(DeleteGroupsRequest(led))
        return {
            each.group_id: refusal(each.group_id, each.error_code) if each.error_code else None
            for each in answer.results
        }

    return await coordinators.ask(groups, delete)
