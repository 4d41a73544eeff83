"""The messages of AllocateProducerIds (API key 67), version 0, flexible."""

from wire.declare import Int16, Int32, Int64, Request, Response


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"]):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
