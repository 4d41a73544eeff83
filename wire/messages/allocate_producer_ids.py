"""The messages of AllocateProducerIds (API key 67), version 0, flexible."""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Int32, Int64, Request, Response


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    key: ClassVar = ApiKey.ALLOCATE_PRODUCER_IDS
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Response):
    key: ClassVar = ApiKey.ALLOCATE_PRODUCER_IDS
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
