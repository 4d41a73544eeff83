"""The messages of BrokerRegistration (API key 62), versions 0-4, all flexible.

- Version 1 adds `is_migrating_zk_broker` to the request.
- Version 2 adds `log_dirs` to the request.
- Version 3 adds `previous_broker_epoch` to the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Int64, Request, Response, Struct, UInt16, V


class Listener(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class Feature(Struct):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    broker_id: Int32 = 0
    cluster_id: str = ""
    incarnation_id: UUID = NIL
    listeners: list[Listener] = []
    features: list[Feature] = []
    rack: Annotated[str | None, V(nullable="0+")] = ""
    is_migrating_zk_broker: Annotated[Bool, V("1+")] = False
    log_dirs: Annotated[list[UUID], V("2+", ignorable=True)] = []
    previous_broker_epoch: Annotated[Int64, V("3+", ignorable=True)] = -1


class BrokerRegistrationResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
