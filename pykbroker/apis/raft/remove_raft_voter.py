"""RemoveRaftVoter (81), v0: remove a controller from the voters (KIP-853).

v0 flexible
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.server.handler import ApiHandler, RequestContext
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

NO_CHANGE = "The controller of this cluster is pykbroker, whose quorum has one voter that cannot change"


class RemoveRaftVoter(ApiHandler, frozen=True):
    """A handler that refuses the request: while kraft.version is 0 as Kafka does, and otherwise too."""

    cluster_id: str
    kraft_version: Callable[[], int]

    def __call__(self, context: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
        code, message = self._refusal(request)
        return RemoveRaftVoterResponse(error_code=code, error_message=message)

    def _refusal(self, request: RemoveRaftVoterRequest) -> tuple[ErrorCode, str]:
        if request.cluster_id not in (None, self.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID, (
                f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{self.cluster_id}"'
            )
        if request.voter_id < 0 or request.voter_directory_id == NIL:
            return ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
        level = self.kraft_version()
        if level:
            return ErrorCode.UNSUPPORTED_VERSION, NO_CHANGE
        return ErrorCode.UNSUPPORTED_VERSION, (
            f"Cluster doesn't support removing voter because the kraft.version feature is {level}"
        )
