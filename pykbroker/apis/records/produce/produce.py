"""Produce (0), v3-13: append one record batch to each partition, and respond as `acks` requires.

v3 record batches only (magic 2), transactional id   v5 log start offset   v7 zstd   v8 record errors (KIP-467)
v9 flexible   v10 current leader in errors (KIP-951)   v11 TRANSACTION_ABORTABLE (KIP-890)
v12 transactions without AddPartitionsToTxn (KIP-890)   v13 topic ids (KIP-516)
A request with acks=0 gets no response; an error closes its connection.
The first batch of a transaction in a partition is appended after the transaction coordinator has verified that the
partition is part of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.apis.records.produce.admit import WriteRights, admit, has_transactional
from pykbroker.apis.records.produce.append import AT_ONCE_MAX, Unopened, append, ended, joined, pieces
from pykbroker.apis.records.produce.settle import Failure, Unsettled, failed, name_leaders, settle, unanswered
from pykbroker.coordinator.admission import Admission
from pykbroker.core.errors import ApiError
from pykbroker.core.security.rights import PRODUCE_TRANSACTION
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from pykbroker.server.leader_hints import LeaderHints
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from wire.refusal import refusal
from wire.sentinels import ACKS_ALL


class Produce(ApiHandler, frozen=True):
    """A handler that responds at once if it can.

    The handler validates large batches off the event loop, and waits for flushes and followers where the request or the
    config requires it.
    """

    replicas: Replicas
    rights: WriteRights
    wall_ms: Callable[[], int]
    hints: LeaderHints

    def __call__(self, context: RequestContext, request: ProduceRequest) -> Answer:
        if request.transactional_id is not None:
            return self._in_transaction(context, request, request.transactional_id)
        topics = request.topic_data
        # `admit` refuses a batch that is alone in its request
        if (len(topics) != 1 or len(topics[0].partition_data) != 1) and has_transactional(request):
            return refused(request, context.version, PRODUCE_TRANSACTION.code)
        return self._append(context, request)

    def handle_large(self, context: RequestContext, request: ProduceRequest) -> Answer:
        """Handle a request like `__call__`, but append to at most `AT_ONCE_MAX` partitions in each step of the loop."""
        many = sum(len(data.partition_data) for data in request.topic_data) > AT_ONCE_MAX
        if not many or request.transactional_id is not None:
            return self(context, request)
        if has_transactional(request):
            return refused(request, context.version, PRODUCE_TRANSACTION.code)
        return Later(self._append_many(context, request), holds_connection=True)

    # ---- admit

    def _in_transaction(self, context: RequestContext, request: ProduceRequest, transactional_id: str) -> Answer:
        """Append the batches of a transactional request.

        The coordinator verifies partitions that are new to the transaction; meanwhile the connection reads no further
        request.
        """
        try:
            admission = self.rights.admission(context, request, transactional_id, self.wall_ms())
        except ApiError as error:
            return refused(request, context.version, error.code, error.message)
        if admission is None or not self.rights.needs_answer(context, admission):
            return self._append(context, request, admission)
        verifying = self._verify(context, request, transactional_id, admission)
        return Later(verifying, holds_connection=True, awaits_node=True)

    async def _verify(
        self, context: RequestContext, request: ProduceRequest, transactional_id: str, admission: Admission
    ) -> Answer:
        await admission.ask(self.rights.transactions, transactional_id)
        return self._append(context, request, admission)

    # ---- append

    def _append(self, context: RequestContext, request: ProduceRequest, admission: Admission | None = None) -> Answer:
        """Append every batch. For a batch that begins a transaction, `admission` has the coordinator's verification."""
        now_ms, version, acks_all = self.wall_ms(), context.version, request.acks == ACKS_ALL
        response = ProduceResponse([])
        unsettled: list[Unsettled] = []
        failures: list[Failure] = []
        for data in request.topic_data:
            results: list[PartitionProduceResponse] = []
            response.responses.append(TopicProduceResponse(data.name, data.topic_id, results))
            try:
                topic = self.rights.topic(context, data.name, data.topic_id)
            except ApiError as error:
                results += [failed(part.index, error) for part in data.partition_data]
                continue
            for part in data.partition_data:
                records, partition = part.records or b"", topic.partitions.get(part.index)
                try:
                    if partition is None:
                        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    verification = admit(partition, records, request, version, admission, now_ms)
                except ApiError as error:
                    result = failed(part.index, error)
                else:
                    result = append(partition, records, now_ms, verification, acks_all, unsettled)
                results.append(result)
                if result.error_code:
                    failures.append((topic.name, result))
        if failures:
            self._explain(context, response, failures)
        if not unsettled:
            return response if request.acks else unanswered(response)
        if any(isinstance(one, Unopened) for one in unsettled):
            return Later(self._open(context, request, response, unsettled, now_ms), holds_connection=True)
        return Later(self._settle(context, request, response, unsettled), holds_connection=False)

    async def _append_many(self, context: RequestContext, request: ProduceRequest) -> Answer:
        answers = []
        for piece in pieces(request):
            answer = self._append(context, piece)
            answers.append(await ended(answer) if isinstance(answer, Later) and answer.holds_connection else answer)
            await trio.lowlevel.checkpoint()
        return Later(joined(request, answers), holds_connection=False)

    async def _open(
        self,
        context: RequestContext,
        request: ProduceRequest,
        response: ProduceResponse,
        unsettled: list[Unsettled],
        now_ms: int,
    ) -> Answer:
        """Append the unopened batches, then return the coroutine that settles the response.

        Later requests of the connection may start as soon as the batches are appended.
        """
        for one in unsettled:
            if isinstance(one, Unopened):
                await one.open(now_ms, request.acks == ACKS_ALL)
        return Later(self._settle(context, request, response, unsettled), holds_connection=False)

    # ---- settle

    async def _settle(
        self, context: RequestContext, request: ProduceRequest, response: ProduceResponse, unsettled: list[Unsettled]
    ) -> Response:
        """Wait until all results are final, and add the leaders of partitions whose leadership has ended meanwhile."""
        settled = await settle(request, response, unsettled)
        failures = [(one.partition.topic, one.result) for one in unsettled if one.result.error_code]
        if failures:
            name_leaders(self.hints, context, response, failures)
        return settled

    def _explain(self, context: RequestContext, response: ProduceResponse, failures: list[Failure]) -> None:
        """Correct the errors of partitions that other brokers have, and name their leaders."""
        for topic, result in failures:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                result.error_code = self.replicas.why_absent(TopicPartition(topic, result.index))
        name_leaders(self.hints, context, response, failures)


def refused(request: ProduceRequest, version: int, code: ErrorCode, message: str | None = None) -> Answer:
    """Return the answer to a request whose partitions all have the same error."""
    response = refusal(request, version, code, message)
    return response if request.acks else unanswered(response)
