"""The transactions of a scripted cluster: this broker's handlers and state machine, with coordinators that move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import trio

from pykbroker.apis.transactions.add_offsets_to_txn import AddOffsetsToTxn
from pykbroker.apis.transactions.add_partitions_to_txn import AddPartitionsToTxn
from pykbroker.apis.transactions.end_txn import EndTxn
from pykbroker.apis.transactions.init_producer_id import InitProducerId
from pykbroker.coordinator.admission import Admission
from pykbroker.coordinator.runtime import Runtime
from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.log.producers import Marker
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.machine import TransactionsMachine
from pykbroker.core.txn.requests import AwaitMarkers, MarkersWritten
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.state import TransactionState
from pykbroker.core.txn.transaction import Transaction
from pykbroker.server.handler import Handler
from pykbroker.sim.scripted.groups import ScriptedGroups
from pykbroker.sim.scripted.hosted import HostedMachine, NodeRuntime, handled, image_of, wall_ms
from pykbroker.sim.scripted.produce import append_all
from pykbroker.sim.scripted.state import ScriptedState
from wire.api import ApiKey
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.header import RequestHeader
from wire.messages.find_coordinator import CoordinatorType
from wire.messages.produce import ProduceRequest, ProduceResponse
from wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from wire.records.batch import Batch
from wire.refusal import refusal

if TYPE_CHECKING:
    from pykbroker.sim.scripted.node import ScriptedNode

PRODUCE_ADDS_VERSION_MIN, COMMIT_ADDS_VERSION_MIN = 12, 5
"""The first versions of Produce and TxnOffsetCommit that add their partition to the transaction (KIP-890)."""
PATIENCE_MS, RETRY_S = 100, 0.1
GROUP_PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)


class ScriptedProducerIds:
    """A source of producer ids that never runs out."""

    in_hand = True

    def __init__(self) -> None:
        self._last = 0

    def next_nowait(self) -> int:
        self._last += 1
        return self._last

    async def next(self) -> int:
        return self.next_nowait()

    async def refill(self) -> None:
        """Do nothing."""


class ScriptedTransactions:
    """All transactions of a cluster. `move` gives a transactional id another coordinator, which loads its state."""

    def __init__(self, state: ScriptedState, groups: ScriptedGroups, nursery: trio.Nursery) -> None:
        self.state, self._groups, self._nursery = state, groups, nursery
        self.settings = TransactionSettings(lambda: state.features.get("transaction.version", 0))
        self._producer_ids = ScriptedProducerIds()
        self._hosted = HostedMachine(
            lambda: TransactionsMachine(self.settings, self._producer_ids), nursery, self._start_writer
        )

    def answers(self) -> Mapping[ApiKey, Callable[..., Any]]:
        """Return the answer of a node to each API of transactions, and to Produce."""
        return {
            **dict.fromkeys(self._handlers(0), self._answer),
            ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKey.PRODUCE: self._produce,
        }

    def move(self, transactional_id: str, node_id: int) -> None:
        """Give a transactional id another coordinator. Waiting callers get NOT_COORDINATOR."""
        self.state.coordinators[CoordinatorType.TRANSACTION, transactional_id] = node_id
        self._hosted.discard()

    def _requests(self, node_id: int) -> TransactionRequests:
        runtime = NodeRuntime(self._hosted, self.state, CoordinatorType.TRANSACTION, node_id)
        return TransactionRequests(cast("Runtime", runtime), self._producer_ids, PATIENCE_MS)

    def _handlers(self, node_id: int) -> dict[ApiKey, Handler]:
        requests = self._requests(node_id)
        found: list[Handler] = [
            InitProducerId(cast("Any", self._producer_ids), requests),
            AddPartitionsToTxn(requests, lambda: image_of(self.state)),
            AddOffsetsToTxn(requests, lambda _group: GROUP_PARTITION.partition),
            EndTxn(requests),
        ]
        return {handler.key: handler for handler in found}

    async def _answer(self, node: ScriptedNode, header: RequestHeader, request: Request[Any]) -> Response:
        return await handled(self._handlers(node.node_id)[ApiKey(header.key)], header, request)

    # ---- records and offsets in transactions

    def _coordinator(self, transactional_id: str) -> TransactionRequests:
        return self._requests(self.state.coordinator(CoordinatorType.TRANSACTION, transactional_id).node_id)

    async def _produce(
        self, node: ScriptedNode, header: RequestHeader, request: ProduceRequest
    ) -> ProduceResponse | None:
        """Append the batches of a Produce request, after the coordinator has verified a transactional one."""
        if request.transactional_id is None:
            return append_all(node, request)
        admission: Admission | None = None
        for topic in request.topic_data:
            for data in topic.partition_data:
                partition = self.state.named(topic.name, topic.topic_id, data.index)
                if partition is None or self.state.leader_and_epoch(partition)[0] != node.node_id:
                    continue
                batch = Batch.read(bytes(data.records or b""))
                if admission is None:
                    adds = header.version >= PRODUCE_ADDS_VERSION_MIN
                    admission = Admission(batch.producer_id, batch.producer_epoch, adds=adds, now_ms=wall_ms())
                admission.begin(partition, self.state.log(partition).producers, batch.base_sequence)
        if admission is not None and admission.verifications:
            await admission.ask(self._coordinator(request.transactional_id), request.transactional_id)
        return append_all(node, request, admission)

    async def _commit_offsets(
        self, node: ScriptedNode, header: RequestHeader, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Store offsets in a transaction, after the transaction coordinator has verified it."""
        adds = header.version >= COMMIT_ADDS_VERSION_MIN
        runtime = NodeRuntime(self._groups.hosted, self.state, CoordinatorType.GROUP, node.node_id)
        try:
            if self.state.coordinator(CoordinatorType.GROUP, request.group_id).node_id != node.node_id:
                raise ApiError(ErrorCode.NOT_COORDINATOR)
            refused = await self._coordinator(request.transactional_id).admit(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                frozenset({GROUP_PARTITION}),
                add=adds,
            )
            if code := refused.get(GROUP_PARTITION):
                raise ApiError(code)
            response: TxnOffsetCommitResponse = await runtime.ask(
                request.group_id, ClientRequest(request, header.version)
            ).wait()
        except ApiError as error:
            return refusal(request, header.version, error.code)
        return response

    # ---- markers

    def _start_writer(self) -> None:
        self._nursery.start_soon(self._write_markers)

    async def _write_markers(self) -> None:
        """Write the markers of decided transactions until the state machine is discarded."""
        while True:
            try:
                markers = await self._hosted.ask(AwaitMarkers()).wait()
            except ApiError:
                return  # the state machine was discarded, and the next one starts another writer
            for decided in markers.transactions:
                self._nursery.start_soon(self._end, decided)

    async def _end(self, decided: Transaction) -> None:
        commit = decided.state is TransactionState.PREPARE_COMMIT
        marker = Marker(decided.producer_id, decided.epoch, commit, 0, decided.client_version)
        for partition in sorted(decided.partitions):
            await self._write_marker(partition, marker)
        written = MarkersWritten(decided.transactional_id, decided.producer_id, decided.epoch)
        await self._hosted.ask(written).wait_settled()

    async def _write_marker(self, partition: TopicPartition, marker: Marker) -> None:
        """Write the marker to one partition. Repeat that after an error that is not final."""
        while True:
            try:
                if partition.topic == GROUP_METADATA_TOPIC:
                    await self._groups.hosted.ask(marker).wait()
                elif self.state.partition(partition) is not None:
                    self.state.log(partition).append_marker(marker, self.state.leader_epoch(partition), wall_ms())
                return
            except ApiError as error:
                if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                    return  # a newer epoch has ended the transaction
            await trio.sleep(RETRY_S)
