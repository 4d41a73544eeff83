"""AddRaftVoter (80), v0-1: add a controller to the voters (KIP-853).

v0 flexible   v1 the response may be sent before the change is committed (KIP-1186)
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.server.handler import ApiHandler, RequestContext
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

NO_CHANGE = "The controller of this cluster is pykbroker, whose quorum has one voter that cannot change"


class AddRaftVoter(ApiHandler, frozen=True):
    """A handler that refuses the request: while kraft.version is 0 as Kafka does, and otherwise too.

    `listener` is the name of the controller listener, which must be among the voter's endpoints.
    """

    cluster_id: str
    kraft_version: Callable[[], int]
    listener: str

    def __call__(self, context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
        code, message = self._refusal(request)
        return AddRaftVoterResponse(error_code=code, error_message=message)

    def _refusal(self, request: AddRaftVoterRequest) -> tuple[ErrorCode, str]:
        if request.cluster_id not in (None, self.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, (
                f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{self.cluster_id}"'
            )
        if request.voter_id < 0 or request.voter_directory_id == NIL:
            return ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
        if all(listener.name != self.listener for listener in request.listeners):
            names = ", ".join(listener.name for listener in request.listeners)
            return ErrorCode.INVALID_REQUEST, (
                f"Add voter request didn't include the endpoint ({names}) for the default listener {self.listener}"
            )
        level = self.kraft_version()
        if level:
            return ErrorCode.UNSUPPORTED_VERSION, NO_CHANGE
        return ErrorCode.UNSUPPORTED_VERSION, (
            f"Cluster doesn't support adding voter because the kraft.version feature is {level}"
        )
