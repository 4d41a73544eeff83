"""The messages of DeleteGroups (API key 42), versions 0-2, flexible from version 2.

- Version 2 is flexible.
"""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Int32, Request, Response, Struct


class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    key: ClassVar = ApiKey.DELETE_GROUPS
    versions: ClassVar = "0-2"
    flexible: ClassVar = "2+"

    groups_names: list[str] = []


class DeletableGroupResult(Struct):
    group_id: str = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Response):
    key: ClassVar = ApiKey.DELETE_GROUPS
    versions: ClassVar = "0-2"
    flexible: ClassVar = "2+"

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = []
