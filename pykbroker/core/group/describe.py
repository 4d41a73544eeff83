"""ListGroups and DescribeGroups: the groups of this coordinator and their states."""

from __future__ import annotations

from pykbroker.core.group.classic.state import DEAD
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.shard import Shard
from pykbroker.core.group.step import Step
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CLASSIC, CONSUMER = "classic", "consumer"
GROUP_ID_NOT_FOUND_VERSION_FIRST = 6


def list_groups(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """List the groups of the requested states and types, in upper or lower case. An empty filter matches all groups."""
    request: ListGroupsRequest = client_request.message
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = [group.listed() for group in shard.groups.values()]
    step.reply(
        token,
        ListGroupsResponse(
            groups=[
                group
                for group in listed
                if (not states or group.group_state.lower() in states)
                and (not types or group.group_type.lower() in types)
            ]
        ),
    )


def describe_groups(shard: Shard, client_request: ClientRequest, token: Token, step: Step) -> None:
    """Describe the groups. A group that does not exist has the state Dead.

    Newer versions also return GROUP_ID_NOT_FOUND for it.
    """
    request: DescribeGroupsRequest = client_request.message
    step.reply(
        token,
        DescribeGroupsResponse(
            groups=[_described(shard, group_id, client_request.version) for group_id in request.groups]
        ),
    )


def _described(shard: Shard, group_id: str, version: int) -> DescribedGroup:
    group = shard.groups.get(group_id)
    described = group.described() if group is not None else None
    if described is None:
        described = DescribedGroup(group_id=group_id, group_state=DEAD)
        if version >= GROUP_ID_NOT_FOUND_VERSION_FIRST:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = (
                f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
            )
    return described
