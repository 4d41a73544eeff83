"""Requests that only the leader of a partition answers: its offsets, and the deletion of its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykbroker.client.admin.admin import TIMEOUT_MS, Admin, check, error_name, topic_of
from pykbroker.client.brokers import Brokers
from pykbroker.client.connection import BrokerConnection
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.sentinels import CONSUMER_REPLICA_ID


class PartitionResult(NamedTuple):
    """The offset that a leader returned for a partition, and the name of the error code, or ""."""

    partition: int
    offset: int
    error: str


class Leaders:
    """The connections to the leaders of a cluster's partitions, one for each broker.

    If the cluster has one broker, its connection is that of `admin`.
    """

    def __init__(self, admin: Admin) -> None:
        self._connection, self._brokers = admin.connection, Brokers(admin)

    def close(self) -> None:
        """Close the connections that were opened to other brokers."""
        self._brokers.close()

    async def partitions(self, topic: str) -> dict[BrokerConnection, list[int]]:
        """Return the partitions of a topic, by the connection to their leader.

        Raise ApiError if a partition has no leader.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = await self._connection.ask(request)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found: dict[BrokerConnection, list[int]] = {}
        for described in map(topic_of, answer.topics):
            for part in described.partitions:
                if part.leader_id not in addresses:
                    raise ApiError(
                        ErrorCode.LEADER_NOT_AVAILABLE,
                        f"partition {part.partition_index} of '{topic}' has no leader (LEADER_NOT_AVAILABLE)",
                    )
                leader = await self._brokers.connection(*addresses[part.leader_id], alone=len(addresses) == 1)
                found.setdefault(leader, []).append(part.partition_index)
        return found

    async def offsets(self, topic: str, timestamp: int) -> list[PartitionResult]:
        """Return an offset of each partition of a topic, as ListOffsets returns it for this timestamp.

        The timestamp is `EARLIEST_TIMESTAMP`, `LATEST_TIMESTAMP`, or a time in ms since 1970. The offset is
        -1 if a partition has no record from this time on.
        """
        results = []
        for leader, indexes in (await self.partitions(topic)).items():
            parts = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
            request = ListOffsetsRequest(
                CONSUMER_REPLICA_ID, topics=[ListOffsetsTopic(topic, parts)], timeout_ms=TIMEOUT_MS
            )
            answer = await leader.ask(request)
            results += [
                PartitionResult(part.partition_index, part.offset, outcome(part.error_code))
                for answered in answer.topics
                for part in answered.partitions
            ]
        return sorted(results)

    async def delete_records(self, topic: str, offsets: Mapping[int, int]) -> list[PartitionResult]:
        """Delete the records below an offset in each partition. Return the new log start offsets.

        The offset -1 deletes all records. If the topic lacks one of the partitions, raise ApiError and delete no
        record.
        """
        by_leader = await self.partitions(topic)
        known = {index for indexes in by_leader.values() for index in indexes}
        if unknown := sorted(offsets.keys() - known):
            check(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' has no partition {unknown[0]}")
        results = []
        for leader, indexes in by_leader.items():
            parts = [DeleteRecordsPartition(index, offsets[index]) for index in indexes if index in offsets]
            if parts:
                request = DeleteRecordsRequest([DeleteRecordsTopic(topic, parts)], TIMEOUT_MS)
                answer = await leader.ask(request)
                results += [
                    PartitionResult(part.partition_index, part.low_watermark, outcome(part.error_code))
                    for answered in answer.topics
                    for part in answered.partitions
                ]
        return sorted(results)


def outcome(error_code: int) -> str:
    """Return the name of an error code, or "" for 0."""
    return error_name(error_code) if error_code else ""
