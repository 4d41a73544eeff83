"""The messages of RemoveRaftVoter (API key 81), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, V


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+")] = ""
    voter_id: Int32 = 0
    voter_directory_id: UUID = NIL


class RemoveRaftVoterResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+", ignorable=True)] = ""
