"""The messages of UnregisterBroker (API key 64), version 0, flexible."""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, V


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
