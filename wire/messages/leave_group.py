"""The messages of LeaveGroup (API key 13), versions 0-5, flexible from version 4.

- Version 1 adds `throttle_time_ms` to the response.
- Version 3 adds `members` to the request and removes `member_id` from the request. It adds `members` to the response.
- Version 4 is flexible.
- Version 5 adds `reason` to the request.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, Struct, V


class MemberIdentity(Struct):
    member_id: Annotated[str, V("3+")] = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    reason: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None


class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    group_id: str = ""
    member_id: Annotated[str, V("0-2")] = ""
    members: Annotated[list[MemberIdentity], V("3+")] = []


class MemberResponse(Struct):
    member_id: Annotated[str, V("3+")] = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = ""
    error_code: Annotated[Int16, V("3+")] = 0


class LeaveGroupResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], V("3+")] = []
