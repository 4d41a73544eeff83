"""The messages of InitProducerId (API key 22), versions 0-6, flexible from version 2.

Version 6 is not stable yet and not accepted.

- Version 2 is flexible.
- Version 3 adds `producer_id` and `producer_epoch` to the request.
- Version 6 adds `enable2_pc` and `keep_prepared_txn` to the request. It adds `ongoing_txn_producer_id` and
  `ongoing_txn_producer_epoch` to the response.
"""

from typing import Annotated, ClassVar

from wire.declare import Bool, Int16, Int32, Int64, Request, Response, V


class InitProducerIdRequest(Request["InitProducerIdResponse"]):
    versions: ClassVar = "0-6"
    flexible: ClassVar = "2+"

    transactional_id: Annotated[str | None, V(nullable="0+")] = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, V("3+")] = -1
    producer_epoch: Annotated[Int16, V("3+")] = -1
    enable2_pc: Annotated[Bool, V("6+")] = False
    keep_prepared_txn: Annotated[Bool, V("6+")] = False


class InitProducerIdResponse(Response):
    versions: ClassVar = "0-6"
    flexible: ClassVar = "2+"

    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, V("6+")] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, V("6+")] = -1
