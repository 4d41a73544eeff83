"""The messages of ControllerRegistration (API key 70), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Request, Response, Struct, UInt16, V


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class Feature(Struct):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"]):
    controller_id: Int32 = 0
    incarnation_id: UUID = NIL
    zk_migration_ready: Bool = False
    listeners: list[Listener] = []
    features: list[Feature] = []


class ControllerRegistrationResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
