"""The look-up of the coordinators of groups for one command, which runs on an admin client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import trio

from pykbroker.client.admin.admin import Admin
from pykbroker.client.brokers import Brokers
from pykbroker.client.connection import BrokerConnection
from pykbroker.client.coordinators import coordinators_of, requests
from pykbroker.core.errors import ApiError
from wire.api import ApiKey
from wire.error_codes import ErrorCode, error_code
from wire.messages.find_coordinator import Coordinator, CoordinatorType
from wire.messages.metadata import MetadataRequest

AVAILABLE_S_MAX = 15
"""The maximum time that a command waits for a coordinator that is elected or that loads its groups."""
RETRY_S = 0.1
RETRIABLE = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
REASONS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "does not exist",
    ErrorCode.NON_EMPTY_GROUP: "has active members, which must leave first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "has active members that subscribe to this topic and must leave first",
    ErrorCode.UNKNOWN_MEMBER_ID: "has active members, which must leave first",
}

T = TypeVar("T")
AskCoordinator = Callable[[BrokerConnection, list[str]], Awaitable[Mapping[str, T | ApiError]]]
"""A function that sends a request about several groups to their coordinator, and returns the result for each group."""


class GroupCoordinators:
    """The connections to the coordinators of groups. `node_ids` has the coordinators that were looked up, by group.

    If the cluster has one broker, its connection is that of `admin`.
    """

    def __init__(self, admin: Admin) -> None:
        self.node_ids: dict[str, int] = {}
        self._connection, self._brokers = admin.connection, Brokers(admin)
        self._alone: bool | None = None

    def close(self) -> None:
        """Close the connections that were opened to other brokers."""
        self._brokers.close()

    async def ask(self, groups: Iterable[str], ask: AskCoordinator[T]) -> dict[str, T | ApiError]:
        """Ask the coordinators of groups. Return the result for each group, in the order of `groups`.

        A group whose coordinator is not available is tried again for `AVAILABLE_S_MAX`.
        """
        order = list(dict.fromkeys(groups))
        pending, found, deadline = order, dict[str, T | ApiError](), trio.current_time() + AVAILABLE_S_MAX
        while pending:
            by_coordinator, refusals = await self._look_up(pending)
            found.update(refusals)
            for coordinator, led in by_coordinator.items():
                found.update(await ask(coordinator, led))
            pending = [group for group in pending if is_retriable(found[group])]
            if trio.current_time() > deadline:
                break
            if pending:
                await trio.sleep(RETRY_S)
        return {group: found[group] for group in order}

    async def _look_up(self, groups: list[str]) -> tuple[dict[BrokerConnection, list[str]], dict[str, ApiError]]:
        """Return the groups by the connection to their coordinator, and an error for each group without one."""
        found: list[Coordinator] = []
        version = self._connection.newest_version(ApiKey.FIND_COORDINATOR)
        for request in requests(CoordinatorType.GROUP, groups, version):
            found += coordinators_of(await self._connection.ask(request, version), request)
        by_coordinator, refusals = defaultdict[BrokerConnection, list[str]](list), {}
        for each in found:
            if each.error_code:
                refusals[each.key] = refusal(each.key, each.error_code, each.error_message)
            else:
                self.node_ids[each.key] = each.node_id
                by_coordinator[await self._connected(each)].append(each.key)
        return by_coordinator, refusals

    async def _connected(self, found: Coordinator) -> BrokerConnection:
        if self._alone is None:
            answer = await self._connection.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False))
            self._alone = len(answer.brokers) == 1
        return await self._brokers.connection(found.host, found.port, alone=self._alone)


def is_retriable(outcome: object) -> bool:
    """Whether the coordinator moves or loads, so that the request may succeed later."""
    return isinstance(outcome, ApiError) and outcome.code in RETRIABLE


def refusal(group: str, number: int, message: str | None = None) -> ApiError:
    """Return the error of a request about a group, as one sentence with the name of its error code."""
    code = error_code(number)
    if code in REASONS:
        return ApiError(code, f"Group '{group}' {REASONS[code]} ({code.name})")
    return ApiError(code, f"Group '{group}': {message} ({code.name})" if message else f"Group '{group}' ({code.name})")
