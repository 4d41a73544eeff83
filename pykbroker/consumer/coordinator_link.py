"""The connection of a consumer to the coordinator of its group, which is used for nothing else."""

from __future__ import annotations

from pykbroker.client.coordinators import Coordinators
from pykbroker.client.errors import Disconnected, UnsupportedVersion
from pykbroker.client.nodes import Nodes
from pykbroker.client.pending_response import R
from pykbroker.core.errors import ApiError
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.errors import EncodeError
from wire.messages.find_coordinator import CoordinatorType
from wire.messages.leave_group import LeaveGroupRequest

LEAVE_MEMBERS_VERSION = 3
"""The first version of LeaveGroup that has a list of members."""


class CoordinatorLink:
    """The connection to the coordinator of one group, which is looked up when it is needed."""

    def __init__(self, group_id: str, nodes: Nodes, coordinators: Coordinators) -> None:
        self.group_id, self._nodes, self._coordinators = group_id, nodes, coordinators

    @property
    def is_known(self) -> bool:
        """Whether the coordinator is known, so that a request needs no look-up."""
        return self._coordinators.known(CoordinatorType.GROUP, self.group_id) is not None

    def forget(self) -> None:
        """Look the coordinator up again before the next request."""
        self._coordinators.forget(CoordinatorType.GROUP, self.group_id)

    async def ask(self, request: Request[R], version_max: int | None = None, timeout_ms: float | None = None) -> R:
        """Send a request and return the response. `timeout_ms` is `request.timeout.ms` by default.

        Wait until a coordinator is found. Raise OSError or Disconnected if its connection fails, and ApiError if the
        look-up is refused or the coordinator lacks the API.
        """
        node = await self._coordinators.find(CoordinatorType.GROUP, self.group_id)
        try:
            newest = (await self._nodes.connection(node)).newest_version(request.key)
            version = newest if version_max is None else min(newest, version_max)
            return await self._nodes.ask(node, _adapt(request, version), version, timeout_ms)
        except (UnsupportedVersion, EncodeError) as error:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
        except (OSError, Disconnected):
            self.forget()
            raise


def _adapt(request: Request[R], version: int) -> Request[R]:
    """Give a request the form of an API version, and return it."""
    if isinstance(request, LeaveGroupRequest) and version < LEAVE_MEMBERS_VERSION:
        request.member_id, request.members = request.members[0].member_id, []
    return request
