"""Requests to the transaction coordinators of this broker, for the handlers of APIs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

import trio

from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
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
from wire.error_codes import ErrorCode

T = TypeVar("T")

CLIENT_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The errors that clients get for errors of the transaction log."""


class ProducerIdAllocator(ProducerIdSource, Protocol):
    """A source of producer ids that the machines take from, and that is refilled from the controller."""

    @property
    def in_hand(self) -> bool:
        """Whether there is one at once."""

    async def refill(self) -> None:
        """Wait until there is. ApiError COORDINATOR_LOAD_IN_PROGRESS: there is none to be had now."""


class TransactionRequests:
    """Refusals come as an `TransactionAnswer`, too.

    What cannot be before the markers of the last transaction are written, CONCURRENT_TRANSACTIONS, is so for a moment
    only, and clients pause for longer: so who is told that waits first, at most `patience_ms`, and asks again.
    """

    def __init__(self, runtime: Runtime, producer_ids: ProducerIdAllocator, patience_ms: int) -> None:
        self._runtime, self._producer_ids, self._patience_ms = runtime, producer_ids, patience_ms

    def ask(self, request: TransactionRequest, respond: Callable[[Reply], T]) -> T | Coroutine[Any, Any, T]:
        """Return the response to a client, made by `respond` from the reply; a coroutine if the reply is awaited."""
        if not request.transactional_id:
            return respond(TransactionAnswer(ErrorCode.INVALID_REQUEST))
        if self._lacks_producer_id(request):
            return self._patiently(self.asked(request), request, respond)
        call = self._runtime.ask(request.transactional_id, request)
        if call.settled and not is_early(reply := _result(call)):
            return respond(reply)
        return self._patiently(_waited(call), request, respond)

    async def _patiently(
        self, first: Coroutine[Any, Any, Reply], request: TransactionRequest, respond: Callable[[Reply], T]
    ) -> T:
        reply = await first
        if is_early(reply):
            await self.wait_ended(request.transactional_id)
            reply = await self.asked(request)
        return respond(reply)

    async def asked(self, request: TransactionRequest) -> Reply:
        """Return the reply to a request of the broker itself, which does not wait for other transactions."""
        if not request.transactional_id:
            return TransactionAnswer(ErrorCode.INVALID_REQUEST)
        if self._lacks_producer_id(request):
            try:
                await self._producer_ids.refill()
            except ApiError as error:
                return refused(error)
        return await _waited(self._runtime.ask(request.transactional_id, request))

    def _lacks_producer_id(self, request: TransactionRequest) -> bool:
        """Whether it may need a new producer id, and would find none."""
        return isinstance(request, InitProducer | EndTransaction) and not self._producer_ids.in_hand

    async def wait_ended(self, transactional_id: str) -> None:
        """Wait until the markers of the last transaction are written, or patience ends."""
        await self._runtime.ask(transactional_id, AwaitEnd(transactional_id, self._patience_ms)).wait_settled()

    async def listed(self, wanted: Callable[[Transaction], bool]) -> list[Transaction]:
        """Return the transactions of this broker for which `wanted` is true. ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        found: list[Transaction] = []
        for call in self._runtime.ask_all(FindTransactions(wanted)):
            reply = await call.wait()
            found += reply.transactions
            await trio.lowlevel.checkpoint()  # 20,000 transactions at once would take 20 ms
        return found

    async def admit(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition], *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Return the partitions that the transaction may not write to, with their errors. `add`: add them to it.

        Callers use an `Admission`, which repeats the request where that helps.
        """
        request: TransactionRequest = (
            AddPartitions(transactional_id, producer_id, epoch, partitions, EPOCH_BUMP_VERSION)
            if add
            else VerifyPartitions(transactional_id, producer_id, epoch, partitions)
        )
        reply = await self.asked(request)
        if isinstance(reply, Verified):
            return dict.fromkeys(reply.refused, ErrorCode.TRANSACTION_ABORTABLE)
        assert isinstance(reply, TransactionAnswer)
        return dict.fromkeys(partitions, reply.error_code) if reply.error_code else {}


async def _waited(call: Call) -> Reply:
    await call.wait_settled()
    return _result(call)


def _result(call: Call) -> Reply:
    """Return the machine's reply; a refusal becomes an answer too."""
    try:
        reply: Reply = call.result()
    except ApiError as error:
        return refused(error)
    return reply


def refused(error: ApiError) -> TransactionAnswer:
    """Return the answer of a request that failed as a whole."""
    return TransactionAnswer(CLIENT_ERRORS.get(error.code, error.code))


def code_for_version(code: ErrorCode, version: int, fenced_version_first: int) -> ErrorCode:
    """Return the error code for this version: INVALID_PRODUCER_EPOCH before the version that has PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_version_first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def is_early(reply: Reply) -> bool:
    """Whether it only says that the last transaction is still ending."""
    return isinstance(reply, TransactionAnswer) and reply.error_code is ErrorCode.CONCURRENT_TRANSACTIONS
