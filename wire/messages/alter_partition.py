"""The messages of AlterPartition (API key 56), versions 2-3, all flexible.

- Version 3 adds `new_isr_with_epochs` to the request and removes `new_isr` from the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int8, Int16, Int32, Int64, Request, Response, Struct, V


class BrokerState(Struct):
    broker_id: Annotated[Int32, V("3+")] = 0
    broker_epoch: Annotated[Int64, V("3+")] = -1


class AlterPartitionRequestPartitionData(Struct):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: Annotated[list[Int32], V("0-2")] = []
    new_isr_with_epochs: Annotated[list[BrokerState], V("3+")] = []
    leader_recovery_state: Annotated[Int8, V("1+")] = 0
    partition_epoch: Int32 = 0


class AlterPartitionRequestTopicData(Struct):
    topic_id: Annotated[UUID, V("2+", ignorable=True)] = NIL
    partitions: list[AlterPartitionRequestPartitionData] = []


class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[AlterPartitionRequestTopicData] = []


class AlterPartitionResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    leader_recovery_state: Annotated[Int8, V("1+", ignorable=True)] = 0
    partition_epoch: Int32 = 0


class AlterPartitionResponseTopicData(Struct):
    topic_id: Annotated[UUID, V("2+", ignorable=True)] = NIL
    partitions: list[AlterPartitionResponsePartitionData] = []


class AlterPartitionResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[AlterPartitionResponseTopicData] = []
