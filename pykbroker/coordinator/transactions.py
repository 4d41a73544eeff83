"""Requests to the transaction coordinators of this broker, for the handlers of APIs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

import trio

from pykbroker.coordinator.cluster import ClusterLeaders
from pykbroker.coordinator.remote_admission import RemoteAdmissions
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.names import TRANSACTION_STATE_TOPIC
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import (
    AddPartitions,
    AwaitEnd,
    EndTransaction,
    FindTransactions,
    InitProducer,
    ProducerIdSource,
    Reply,
    TransactionAnswer,
    TransactionRequest,
    Verified,
    VerifyPartitions,
)
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION, Transaction
from pykbroker.machines.call import Call
from pykbroker.machines.call import refused as refused_call
from wire.error_codes import ErrorCode

T = TypeVar("T")

NAMELESS = refused_call(ApiError(ErrorCode.INVALID_REQUEST))
"""The call of a request without a transactional id."""
ELSEWHERE_S = 0.02
"""The pause before a coordinator on another broker is asked again: add.partitions.to.txn.retry.backoff.ms."""


class ProducerIdAllocator(ProducerIdSource, Protocol):
    """A source of producer ids for the transaction coordinator. It gets blocks of ids from the controller."""

    @property
    def in_hand(self) -> bool:
        """Whether a producer id is available without waiting."""

    async def refill(self) -> None:
        """Wait until a producer id is available.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS if the controller grants none now.
        """


class TransactionRequests:
    """Requests to the transaction coordinators of this broker.

    An error is returned as a `TransactionAnswer`, not raised.

    CONCURRENT_TRANSACTIONS lasts only until the markers of the last transaction are written, but clients pause for
    longer before they retry. The broker therefore waits for the markers, at most `patience_ms`, and repeats the request
    once itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        producer_ids: ProducerIdAllocator,
        patience_ms: int,
        leaders: ClusterLeaders | None = None,
    ) -> None:
        self._runtime, self._producer_ids, self._patience_ms = runtime, producer_ids, patience_ms
        self._leaders = leaders
        self._elsewhere = None if leaders is None else RemoteAdmissions(leaders.verification_peers)

    def _coordinator_elsewhere(self, transactional_id: str) -> int | None:
        """Return the broker that coordinates a transactional id if it is another broker, else None."""
        if self._leaders is None:
            return None
        try:
            index = self._runtime.partition_of(transactional_id)
        except ApiError:
            return None
        return self._leaders.elsewhere(TopicPartition(TRANSACTION_STATE_TOPIC, index))

    def ask(self, request: TransactionRequest, respond: Callable[[Reply], T]) -> T | Coroutine[Any, Any, T]:
        """Return the response that `respond` makes from the coordinator's reply, or a coroutine that waits for it."""
        if not request.transactional_id:
            return respond(TransactionAnswer(ErrorCode.INVALID_REQUEST))
        if self._lacks_producer_id(request):
            return self._patiently(self.send(request), request, respond)
        call = self._runtime.ask(request.transactional_id, request)
        # Most requests end here, without a coroutine.
        if call.settled and not is_concurrent(reply := _result(call)):
            return respond(reply)
        return self._patiently(_waited(call), request, respond)

    async def _patiently(
        self, first: Coroutine[Any, Any, Reply], request: TransactionRequest, respond: Callable[[Reply], T]
    ) -> T:
        reply = await first
        if is_concurrent(reply):
            await self.wait_ended(request.transactional_id)
            reply = await self.send(request)
        return respond(reply)

    async def send(self, request: TransactionRequest) -> Reply:
        """Return the coordinator's reply. CONCURRENT_TRANSACTIONS is returned at once."""
        if not request.transactional_id:
            return TransactionAnswer(ErrorCode.INVALID_REQUEST)
        if self._lacks_producer_id(request):
            try:
                await self._producer_ids.refill()
            except ApiError as error:
                return refused(error)
        return await _waited(self._runtime.ask(request.transactional_id, request))

    async def send_all(self, requests: Iterable[TransactionRequest]) -> list[Reply]:
        """Return the replies to requests that need no new producer id. Their records are committed together."""
        calls = []
        for request in requests:
            named = bool(request.transactional_id)
            calls.append(self._runtime.ask(request.transactional_id, request) if named else NAMELESS)
            await trio.lowlevel.checkpoint()
        return [await _waited(call) for call in calls]

    def _lacks_producer_id(self, request: TransactionRequest) -> bool:
        """Whether the request may need a new producer id while none is available."""
        return isinstance(request, InitProducer | EndTransaction) and not self._producer_ids.in_hand

    async def wait_ended(self, transactional_id: str) -> None:
        """Wait until the markers of the last transaction are written, at most `patience_ms`.

        A coordinator on another broker is asked again after a short pause instead.
        """
        if self._coordinator_elsewhere(transactional_id) is not None:
            await trio.sleep(ELSEWHERE_S)
            return
        await self._runtime.ask(transactional_id, AwaitEnd(transactional_id, self._patience_ms)).wait_settled()

    async def listed(self, wanted: Callable[[Transaction], bool]) -> list[Transaction]:
        """Return the transactions of this broker for which `wanted` is true.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS if a coordinator is loading.
        """
        found: list[Transaction] = []
        for call in self._runtime.ask_all(FindTransactions(wanted)):
            reply = await call.wait()
            found += reply.transactions
            await trio.lowlevel.checkpoint()  # the event loop would be blocked for 20 ms by 20,000 transactions
        return found

    async def admit(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Verify that the transaction may write to these partitions. Return the refused partitions with their errors.

        With `add`, the partitions are added to the transaction first. Callers go through `Admission`, which repeats the
        request after CONCURRENT_TRANSACTIONS.
        """
        elsewhere = self._coordinator_elsewhere(transactional_id)
        if elsewhere is not None and self._elsewhere is not None:
            return await self._elsewhere.admit(elsewhere, transactional_id, producer_id, epoch, partitions, add=add)
        request: TransactionRequest = (
            AddPartitions(transactional_id, producer_id, epoch, partitions, EPOCH_BUMP_VERSION)
            if add
            else VerifyPartitions(transactional_id, producer_id, epoch, partitions)
        )
        reply = await self.send(request)
        if isinstance(reply, Verified):
            return dict.fromkeys(reply.refused, ErrorCode.TRANSACTION_ABORTABLE)
        assert isinstance(reply, TransactionAnswer)
        return dict.fromkeys(partitions, reply.error_code) if reply.error_code else {}


async def _waited(call: Call) -> Reply:
    await call.wait_settled()
    return _result(call)


def _result(call: Call) -> Reply:
    """Return the reply of a settled call. An ApiError becomes a TransactionAnswer."""
    try:
        reply: Reply = call.result()
    except ApiError as error:
        return refused(error)
    return reply


def refused(error: ApiError) -> TransactionAnswer:
    """Return the answer to a request that failed as a whole."""
    return TransactionAnswer(error.code)


def code_for_version(code: ErrorCode, version: int, fenced_version_first: int) -> ErrorCode:
    """Return the error code for a version: INVALID_PRODUCER_EPOCH for PRODUCER_FENCED before `fenced_version_first`."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_version_first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def is_concurrent(reply: Reply) -> bool:
    """Whether the reply is CONCURRENT_TRANSACTIONS: the last transaction is still ending."""
    return isinstance(reply, TransactionAnswer) and reply.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
