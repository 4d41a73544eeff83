"""What the APIs ask of the transaction coordinators of this broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from pykbroker.coordinator.call import Call
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.txn.requests import (
    AddPartitions, Answer, EndTransaction, InitProducer, ListTransactions, ProducerIdSource, Reply, TransactionRequest,
    Verified, VerifyPartitions,
)  # fmt: skip
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION, TopicPartition, Transaction
from wire.error_codes import ErrorCode

T = TypeVar("T")

TOLD: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What clients are told of what befell the log of transactions."""


class ProducerIds(ProducerIdSource, Protocol):
    """Where the machines take new producer ids from, and how there come to be some."""

    @property
    def in_hand(self) -> bool:
        """Whether there is one at once."""

    async def refill(self) -> None:
        """Wait until there is. ApiError COORDINATOR_LOAD_IN_PROGRESS: there is none to be had now."""


class Transactions:
    """Refusals come as an `Answer`, too. `backoff_ms`, `backoff_ms_max`: how long an `Admission` waits."""

    def __init__(self, runtime: Runtime, producer_ids: ProducerIds, backoff_ms: int, backoff_ms_max: int) -> None:
        self._runtime, self._producer_ids = runtime, producer_ids
        self.backoff_ms, self.backoff_ms_max = backoff_ms, backoff_ms_max

    def ask(self, request: TransactionRequest, respond: Callable[[Reply], T]) -> T | Coroutine[Any, Any, T]:
        """What `respond` makes of the reply; a coroutine where that has to wait."""
        if not request.transactional_id:
            return respond(Answer(ErrorCode.INVALID_REQUEST))
        if isinstance(request, InitProducer | EndTransaction) and not self._producer_ids.in_hand:
            return self._with_producer_id(request, respond)
        try:
            call = self._runtime.ask(request.transactional_id, request)
            return respond(call.result()) if call.settled else self._wait(call, respond)
        except ApiError as error:
            return respond(refused(error))

    async def _with_producer_id(self, request: TransactionRequest, respond: Callable[[Reply], T]) -> T:
        """Such a request may need a new producer id, and finds one."""
        try:
            await self._producer_ids.refill()
            return respond(await self._runtime.ask(request.transactional_id, request).wait())
        except ApiError as error:
            return respond(refused(error))

    async def _wait(self, call: Call, respond: Callable[[Reply], T]) -> T:
        try:
            return respond(await call.wait())
        except ApiError as error:
            return respond(refused(error))

    async def asked(self, request: TransactionRequest) -> Reply:
        """The reply."""
        answer = self.ask(request, itself)
        return await answer if isinstance(answer, Coroutine) else answer

    async def listed(self, wanted: Callable[[Transaction], bool]) -> list[Transaction]:
        """All transactions of this broker's that are wanted. ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        found: list[Transaction] = []
        for call in list(self._runtime.ask_all(ListTransactions(wanted))):
            reply = await call.wait()
            found += reply.transactions
        return found

    async def admit(self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicPartition],
                    *, add: bool) -> dict[TopicPartition, ErrorCode]:
        """Which of these partitions may not be written to in this transaction, and why. `add`: they come to take part.

        Use an `Admission`, which asks again where that makes sense.
        """
        request: TransactionRequest = (
            AddPartitions(transactional_id, producer_id, epoch, partitions, EPOCH_BUMP_VERSION) if add
            else VerifyPartitions(transactional_id, producer_id, epoch, partitions))
        reply = await self.asked(request)
        if isinstance(reply, Verified):
            return dict.fromkeys(reply.refused, ErrorCode.TRANSACTION_ABORTABLE)
        assert isinstance(reply, Answer)
        return dict.fromkeys(partitions, reply.error_code) if reply.error_code else {}


def refused(error: ApiError) -> Answer:
    """The answer of a request that failed as a whole."""
    return Answer(TOLD.get(error.code, error.code))


def spoken(code: ErrorCode, version: int, fenced_version_first: int) -> ErrorCode:
    """The error as clients of this version know it: before PRODUCER_FENCED there was INVALID_PRODUCER_EPOCH."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_version_first:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def itself(reply: Reply) -> Reply:
    """As it is."""
    return reply
