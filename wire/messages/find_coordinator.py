"""The messages of FindCoordinator (API key 10), versions 0-6, flexible from version 3.

- Version 1 adds `key_type` to the request. It adds `throttle_time_ms` and `error_message` to the response.
- Version 3 is flexible.
- Version 4 adds `coordinator_keys` to the request and removes `key` from the request. It adds `coordinators` to the
  response and removes `error_code`, `error_message`, `node_id`, `host`, and `port` from the response.
"""

from enum import IntEnum
from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class CoordinatorType(IntEnum):
    """The values of `key_type`: what the keys of a request name."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    key_: Annotated[str, V("0-3")] = ""
    key_type: Annotated[Int8, V("1+")] = 0
    coordinator_keys: Annotated[list[str], V("4+")] = []


class Coordinator(Struct):
    key: Annotated[str, V("4+")] = ""
    node_id: Annotated[Int32, V("4+")] = 0
    host: Annotated[str, V("4+")] = ""
    port: Annotated[Int32, V("4+")] = 0
    error_code: Annotated[Int16, V("4+")] = 0
    error_message: Annotated[str | None, V("4+", nullable="4+", ignorable=True)] = ""


class FindCoordinatorResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, V("0-3")] = 0
    error_message: Annotated[str | None, V("1-3", nullable="1-3", ignorable=True)] = ""
    node_id: Annotated[Int32, V("0-3")] = 0
    host: Annotated[str, V("0-3")] = ""
    port: Annotated[Int32, V("0-3")] = 0
    coordinators: Annotated[list[Coordinator], V("4+")] = []
