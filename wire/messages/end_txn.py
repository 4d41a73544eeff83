"""The messages of EndTxn (API key 26), versions 0-5, flexible from version 3.

- Version 3 is flexible.
- Version 5 adds `producer_id` and `producer_epoch` to the response.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Int64, Request, Response, V


class EndTxnRequest(Request["EndTxnResponse"]):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, V("5+", ignorable=True)] = -1
    producer_epoch: Annotated[Int16, V("5+", ignorable=True)] = -1
