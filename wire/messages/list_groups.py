"""The messages of ListGroups (API key 16), versions 0-5, flexible from version 3.

- Version 1 adds `throttle_time_ms` to the response.
- Version 3 is flexible.
- Version 4 adds `states_filter` to the request. It adds `group_state` to the response.
- Version 5 adds `types_filter` to the request. It adds `group_type` to the response.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, Struct, V


class ListGroupsRequest(Request["ListGroupsResponse"]):
    states_filter: Annotated[list[str], V("4+")] = []
    types_filter: Annotated[list[str], V("5+")] = []


class ListedGroup(Struct):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, V("4+", ignorable=True)] = ""
    group_type: Annotated[str, V("5+", ignorable=True)] = ""


class ListGroupsResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup] = []
