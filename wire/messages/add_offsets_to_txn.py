"""The messages of AddOffsetsToTxn (API key 25), versions 0-4, flexible from version 3.

- Version 3 is flexible.
"""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Int32, Int64, Request, Response


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    key: ClassVar = ApiKey.ADD_OFFSETS_TO_TXN
    versions: ClassVar = "0-4"
    flexible: ClassVar = "3+"

    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Response):
    key: ClassVar = ApiKey.ADD_OFFSETS_TO_TXN
    versions: ClassVar = "0-4"
    flexible: ClassVar = "3+"

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
