"""A transactional client whose methods return error codes."""

from __future__ import annotations

from typing import Any

import trio

from tests.unit.apis.conftest import Client, batch
from wire.error_codes import ErrorCode
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from wire.messages.describe_transactions import DescribeTransactionsRequest
from wire.messages.end_txn import EndTxnRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from wire.records.batch import batches
from wire.records.record import records

NAME = "copier"
GROUP, TRANSACTION = 0, 1
Place = tuple[str, int]


class TransactionalClient:
    """A client with one transactional id. If `version_2` is true, it uses transaction version 2 (KIP-890)."""

    def __init__(self, client: Client, name: str = NAME, *, version_2: bool = False) -> None:
        self.client, self.name, self.version_2 = client, name, version_2
        self.producer_id, self.epoch = -1, -1

    async def find(self, key_type: int = TRANSACTION, key: str | None = None) -> None:
        """Find the coordinator. The first call creates `__transaction_state`."""
        asked = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[self.name if key is None else key])
        found = await self.client.call(asked, 4)
        assert found.coordinators[0].error_code == ErrorCode.NONE

    async def init(
        self,
        *,
        timeout_ms: int = 60_000,
        version: int = 5,
        name: str | None = None,
        producer_id: int = -1,
        epoch: int = -1,
    ) -> ErrorCode:
        """Send InitProducerId; keep the producer id and epoch if it succeeds."""
        answer = await self.client.call(
            InitProducerIdRequest(self.name if name is None else name, timeout_ms, producer_id, epoch), version
        )
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def begin(self) -> TransactionalClient:
        """Find the coordinator and initialize the producer."""
        await self.find()
        assert await self.init() is ErrorCode.NONE
        return self

    async def add(self, *places: Place, version: int = 3, epoch: int | None = None) -> list[ErrorCode]:
        """Add partitions to the transaction; return their error codes in order."""
        answer = await self.client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch if epoch is None else epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [index]) for topic, index in places],
            ),
            version,
        )
        return [
            ErrorCode(topic.results_by_partition[0].partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
        ]

    async def ask_as_broker(self, *places: Place, verify_only: bool, version: int = 5) -> list[ErrorCode]:
        """Add or verify partitions as a partition leader does; return their error codes."""
        answer = await self.client.call(
            AddPartitionsToTxnRequest(
                [
                    AddPartitionsToTxnTransaction(
                        self.name,
                        self.producer_id,
                        self.epoch,
                        verify_only,
                        [AddPartitionsToTxnTopic(topic, [index]) for topic, index in places],
                    )
                ]
            ),
            version,
        )
        assert answer.error_code == ErrorCode.NONE
        return [
            ErrorCode(topic.results_by_partition[0].partition_error_code)
            for topic in answer.results_by_transaction[0].topic_results
        ]

    async def add_offsets(self, group: str, *, version: int = 3) -> ErrorCode:
        answer = await self.client.call(AddOffsetsToTxnRequest(self.name, self.producer_id, self.epoch, group), version)
        return ErrorCode(answer.error_code)

    async def produce(
        self,
        topic: str,
        sequence: int = 0,
        *,
        index: int = 0,
        version: int | None = None,
        name: str | None = NAME,
        value: bytes = b"v",
        **fields: Any,
    ) -> ErrorCode:
        """Produce one record; return the error code."""
        stamped = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
            **fields,
        }
        request = ProduceRequest(
            self.name if name == NAME else name,
            -1,
            5000,
            [TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch(value, **stamped))])],
        )
        answer = await self.client.call(request, (12 if self.version_2 else 11) if version is None else version)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def commit_offset(self, group: str, topic: str, offset: int, *, version: int | None = None) -> ErrorCode:
        """Commit a consumer offset as part of the transaction; return the error code."""
        answer = await self.client.call(
            TxnOffsetCommitRequest(
                self.name,
                group,
                self.producer_id,
                self.epoch,
                topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, offset)])],
            ),
            (5 if self.version_2 else 3) if version is None else version,
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def end(self, *, commit: bool, version: int | None = None, epoch: int | None = None) -> ErrorCode:
        """End the transaction; keep the new epoch if the coordinator bumped it."""
        answer = await self.client.call(
            EndTxnRequest(self.name, self.producer_id, self.epoch if epoch is None else epoch, commit),
            (5 if self.version_2 else 4) if version is None else version,
        )
        if not answer.error_code and answer.producer_id >= 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    async def markers(
        self,
        topic: str,
        *,
        commit: bool = False,
        epoch: int | None = None,
        coordinator_epoch: int = 0,
        version: int = 1,
        index: int = 0,
        transaction_version: int = 0,
    ) -> ErrorCode:
        """Send WriteTxnMarkers, as a transaction coordinator or an admin client does."""
        answer = await self.client.call(
            WriteTxnMarkersRequest(
                [
                    WritableTxnMarker(
                        self.producer_id,
                        self.epoch if epoch is None else epoch,
                        commit,
                        [WritableTxnMarkerTopic(topic, [index])],
                        coordinator_epoch,
                        transaction_version,
                    )
                ]
            ),
            version,
        )
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    async def described(self) -> Any:
        return (await self.client.call(DescribeTransactionsRequest([self.name]), 0)).transaction_states[0]

    async def settled(self) -> str:
        """Wait until the markers are written; return the state of the transaction."""
        while (state := (await self.described()).transaction_state).startswith("Prepare"):
            await trio.lowlevel.checkpoint()
        return str(state)

    async def committed(self, group: str, topic: str) -> int:
        """Return a group's stable committed offset: -1 if there is none, -2 while the transaction is open."""
        answer = await self.client.call(
            OffsetFetchRequest(
                groups=[
                    OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])
                ],
                require_stable=True,
            ),
            8,
        )
        part = answer.groups[0].topics[0].partitions[0]
        return -2 if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT else int(part.committed_offset)

    async def read(self, topic: str) -> tuple[list[bytes], int]:
        """Fetch partition 0 with read_committed; return the values outside aborted transactions, and the last stable
        offset.
        """
        values: list[bytes] = []
        void: set[int] = set()
        offset, stable = 0, 1
        while offset < stable:
            data = await self.client.fetch(topic, offset, isolation_level=1, bytes_max=1 << 24)
            stable = data.last_stable_offset
            aborted = {(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()}
            for one in batches(data.records or b""):
                offset = one.last_offset + 1
                if (one.producer_id, one.base_offset) in aborted:
                    void.add(one.producer_id)
                if one.is_control:
                    void.discard(one.producer_id)
                elif one.producer_id not in void:
                    values += [bytes(record.value or b"") for record in records(one, 1 << 24)]
            if not data.records:
                break
        return values, stable
