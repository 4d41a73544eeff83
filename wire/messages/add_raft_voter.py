"""The messages of AddRaftVoter (API key 80), versions 0-1, all flexible.

- Version 1 adds `ack_when_committed` to the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Request, Response, Struct, UInt16, V


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class AddRaftVoterRequest(Request["AddRaftVoterResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+")] = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: UUID = NIL
    listeners: list[Listener] = []
    ack_when_committed: Annotated[Bool, V("1+")] = True


class AddRaftVoterResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+", ignorable=True)] = ""
