"""The first step of a Produce: who may write what. A batch that is refused here is not appended."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pykbroker.coordinator.admission import Admission
from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.core.names import INTERNAL_TOPICS
from pykbroker.core.security.rights import PRODUCE_TOPIC, PRODUCE_TRANSACTION, require
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.replicas import Replicas, TopicReplicas
from pykbroker.server.handler import RequestContext
from wire.declare import Buffer
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages.produce import ProduceRequest
from wire.records.batch import CODEC_MASK, MAGIC, TRANSACTIONAL, Batch
from wire.records.compression import Codec
from wire.sentinels import ACKS_ALL

ACKS = (ACKS_ALL, 0, 1)
MAGIC_AT, ATTRIBUTES_END = 16, 22
"""Byte positions in a batch: of the magic byte, and of the low byte of the attributes."""
ADMIN_CLIENT = "__admin_client"
"""The client id that may write to internal topics, as in Kafka."""
ZSTD_VERSION_FIRST, ABORTABLE_VERSION_FIRST, ADDED_VERSION_FIRST = 7, 11, 12
UNREACHED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
)
"""Coordinator errors that producers do not expect from Produce. They become NOT_ENOUGH_REPLICAS, which is retriable."""


class WriteRights(msgspec.Struct, frozen=True):
    """The topics that a client may write to, and the transactions in which it may."""

    replicas: Replicas
    transactions: TransactionRequests
    verifies: Callable[[], bool]
    """Whether the broker verifies the first batch of a transaction of version 0 or 1.

    The config is `transaction.partition.verification.enable`.
    """

    def topic(self, context: RequestContext, name: str, topic_id: bytes) -> TopicReplicas:
        """Return a topic by name, or by id if the name is empty. Raise ApiError if the client may not write to it."""
        if name:
            require(context, PRODUCE_TOPIC, name)  # before the topic is looked up: the client may not know of it
        topic = self.replicas.topic(name, topic_id)
        if not name:
            require(context, PRODUCE_TOPIC, topic.name)
        if topic.name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        return topic

    def admission(
        self, context: RequestContext, request: ProduceRequest, transactional_id: str, now_ms: int
    ) -> Admission | None:
        """Begin the verifications of the transactional batches of a request. Return None if it has no such batch.

        Raise ApiError if the whole request is refused.
        """
        if not has_transactional(request):
            return None
        require(context, PRODUCE_TRANSACTION, transactional_id)
        found = self._transactional(context, request)
        if not found:
            return None
        if len({batch.producer_id for _, batch in found}) > 1:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
            )
        adds, (_, batch) = context.version >= ADDED_VERSION_FIRST, found[0]
        admission = Admission(batch.producer_id, batch.producer_epoch, adds=adds, now_ms=now_ms)
        for partition, batch in found:
            admission.begin(partition.key, partition.require_leader().producers, batch.base_sequence)
        return admission

    def needs_answer(self, context: RequestContext, admission: Admission) -> bool:
        """Whether the coordinator must verify partitions before their batches may be appended."""
        return bool(admission.verifications) and (context.version >= ADDED_VERSION_FIRST or self.verifies())

    def _transactional(self, context: RequestContext, request: ProduceRequest) -> list[tuple[Partition, Batch]]:
        """Return the transactional batches whose headers are valid and whose partitions the client may write to."""
        found = []
        for data in request.topic_data:
            for part in data.partition_data:
                if is_transactional(part.records or b""):
                    try:
                        topic = self.topic(context, data.name, data.topic_id)
                        partition, batch = topic.partitions[part.index], Batch.read(part.records or b"")
                        partition.require_leader()
                    except (ApiError, DecodeError, KeyError):
                        continue  # the append reports the error
                    if batch.producer_id >= 0:
                        found.append((partition, batch))
        return found


def admit(
    partition: Partition, data: Buffer, request: ProduceRequest, version: int, admission: Admission | None, now_ms: int
) -> Verification | None:
    """Return the coordinator's verification of a batch that begins a transaction, and None for any other batch.

    Raise ApiError if the batch may not be part of this request.
    """
    if version < ZSTD_VERSION_FIRST and is_zstd(data):
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no zstd in version {version}")
    if request.acks not in ACKS:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
    if not is_transactional(data):
        return None
    if request.transactional_id is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if admission is None:
        return None
    code = admission.refused.get(partition.key)
    if code is not None:
        refusal = not_admitted(code, version)
        partition.refused.note(partition.log, data, refusal.code, now_ms)
        raise refusal
    return admission.verifications.get(partition.key)


def not_admitted(code: ErrorCode, version: int) -> ApiError:
    """Return the coordinator's refusal as an error that producers of this request version understand."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION_FIRST:
        return ApiError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
    if code in UNREACHED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDED_VERSION_FIRST):
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return ApiError(code)


def has_transactional(request: ProduceRequest) -> bool:
    """Whether a batch of the request is transactional."""
    for data in request.topic_data:
        for part in data.partition_data:
            records = part.records
            if records and is_transactional(records):
                return True
    return False


def is_transactional(data: Buffer) -> bool:
    """Whether the header marks a transactional batch; False if the header is incomplete."""
    return len(data) > ATTRIBUTES_END and data[ATTRIBUTES_END] & TRANSACTIONAL != 0 and data[MAGIC_AT] == MAGIC


def is_zstd(data: Buffer) -> bool:
    """Whether the header marks a batch compressed with zstd; False if the header is incomplete."""
    return len(data) > ATTRIBUTES_END and data[ATTRIBUTES_END] & CODEC_MASK == Codec.ZSTD and data[MAGIC_AT] == MAGIC
