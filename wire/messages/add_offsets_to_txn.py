"""The messages of AddOffsetsToTxn (API key 25), versions 0-4, flexible from version 3.

- Version 3 is flexible.
"""

from wire.declare import Int16, Int32, Int64, Request, Response


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
