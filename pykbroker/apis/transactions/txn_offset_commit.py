"""TxnOffsetCommit (28), v0-5: commit a group's offsets as part of a transaction (KIP-98, KIP-447).

v2 leader epoch   v3 flexible, member and generation   v4 TRANSACTION_ABORTABLE   v5 without AddOffsetsToTxn (KIP-890)
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.coordinator.admission import Admission
from pykbroker.coordinator.client_errors import CLIENT_ERRORS
from pykbroker.coordinator.runtime import Runtime
from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.log.verification import Verification
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.security.rights import (
    TXN_OFFSET_COMMIT_GROUP,
    TXN_OFFSET_COMMIT_TOPIC,
    TXN_OFFSET_COMMIT_TRANSACTION,
    may,
    require,
)
from pykbroker.core.steps import Steps, finish
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.machines.call import when_settled
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from pykbroker.world.portions import AT_ONCE_MAX
from wire.error_codes import ErrorCode
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from wire.refusal import merge, refusal
from wire.sentinels import NO_SEQUENCE

LOADING_VERSION_FIRST, ABORTABLE_VERSION_FIRST, ADDED_VERSION_FIRST = 2, 4, 5


class TxnOffsetCommit(ApiHandler, frozen=True):
    """A handler that first asks the transaction coordinator, unless the group's partition has the transaction open."""

    transactions: TransactionRequests
    groups: Runtime
    replicas: Replicas
    image: Callable[[], MetadataImage]
    wall_ms: Callable[[], int]
    verifies: Callable[[], bool]

    def __call__(self, context: RequestContext, request: TxnOffsetCommitRequest) -> Answer:
        require(context, TXN_OFFSET_COMMIT_TRANSACTION, request.transactional_id)
        require(context, TXN_OFFSET_COMMIT_GROUP, request.group_id)
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        steps = self._steps(context, request)
        return finish(steps) if len(request.topics) <= AT_ONCE_MAX else Later(steps, holds_connection=True)

    def _steps(self, context: RequestContext, request: TxnOffsetCommitRequest) -> Steps[Answer]:
        refused = yield from self._take_out(context, request)
        if refused and not request.topics:
            return TxnOffsetCommitResponse(topics=refused)
        try:
            place = TopicPartition(GROUP_METADATA_TOPIC, self.groups.partition_of(request.group_id))
        except ApiError:  # unlike other APIs of groups
            return self._refuse_all(context.version, request, refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        adds = context.version >= ADDED_VERSION_FIRST
        admission = Admission(request.producer_id, request.producer_epoch, adds=adds, now_ms=self.wall_ms())
        try:
            log = self.replicas.partition(place).require_leader()
        except ApiError as error:
            return self._refuse_all(context.version, request, refused, error.code)
        admission.begin(place, log.producers, NO_SEQUENCE)
        if admission.verifications and (adds or self.verifies()):
            admitting = self._admit(context.version, request, refused, place, admission)
            return Later(admitting, holds_connection=True, awaits_node=True)
        return self._commit(context.version, request, refused, admission.verifications.get(place))

    def _refuse_all(
        self,
        version: int,
        request: TxnOffsetCommitRequest,
        refused: list[TxnOffsetCommitResponseTopic],
        code: ErrorCode,
    ) -> TxnOffsetCommitResponse:
        """Return a response with an error for every partition, except those that have a result in `refused`."""
        return finish(merge(refusal(request, version, code_for_client(code, version)), refused))

    def _take_out(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> Steps[list[TxnOffsetCommitResponseTopic]]:
        """Remove unknown and unauthorized partitions from the request, and return their results."""
        topics, taken, refused = self.image().topics.by_name, [], []
        for topic in request.topics:
            known, code = topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            present = () if known is None else known.partitions
            if not may(context, TXN_OFFSET_COMMIT_TOPIC, topic.name):
                code, present = TXN_OFFSET_COMMIT_TOPIC.code, ()
            here = [part for part in topic.partitions if part.partition_index in present]
            away = [part for part in topic.partitions if part.partition_index not in present]
            if away:
                part = TxnOffsetCommitRequest(topics=[TxnOffsetCommitRequestTopic(topic.name, away)])
                refused += refusal(part, context.version, code).topics
            if here:
                taken.append(TxnOffsetCommitRequestTopic(topic.name, here))
            yield
        request.topics = taken
        return refused

    async def _admit(
        self,
        version: int,
        request: TxnOffsetCommitRequest,
        refused: list[TxnOffsetCommitResponseTopic],
        place: TopicPartition,
        admission: Admission,
    ) -> Answer:
        await admission.ask(self.transactions, request.transactional_id)
        if place in admission.refused:
            return self._refuse_all(version, request, refused, admission.refused[place])
        return self._commit(version, request, refused, admission.verifications.get(place))

    def _commit(
        self,
        version: int,
        request: TxnOffsetCommitRequest,
        refused: list[TxnOffsetCommitResponseTopic],
        verification: Verification | None,
    ) -> Answer:
        call = self.groups.ask(request.group_id, ClientRequest(request, version), verification)

        def answer() -> TxnOffsetCommitResponse:
            try:
                response: TxnOffsetCommitResponse = call.result()
            except ApiError as error:
                return self._refuse_all(version, request, refused, error.code)
            return finish(merge(response, refused))

        return now_or_later(when_settled([call], answer))


def code_for_client(code: ErrorCode, version: int) -> ErrorCode:
    """Return the error that clients of this request version understand.

    Errors of the log of the group's partition become those of a coordinator, as in the other APIs of groups.

    A transaction coordinator that did not respond leaves a client to try again, without another search for the group's
    coordinator.
    """
    code = CLIENT_ERRORS.get(code, code)
    if code is ErrorCode.NETWORK_EXCEPTION:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION_FIRST:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION_FIRST:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
