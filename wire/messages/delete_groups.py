"""The messages of DeleteGroups (API key 42), versions 0-2, flexible from version 2.

- Version 2 is flexible.
"""

from wire.declare import Int16, Int32, Request, Response, Struct


class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    groups_names: list[str] = []


class DeletableGroupResult(Struct):
    group_id: str = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
