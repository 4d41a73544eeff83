"""The verification of transactional batches by coordinators on other brokers: AddPartitionsToTxn 4-5 (KIP-890).

1. One request at a time is in flight to each coordinator. The next one has all verifications that were begun meanwhile.
2. A request has one entry for each transactional id. Verifications of the same transaction are combined.
3. Of two epochs of a producer, the older one gets INVALID_PRODUCER_EPOCH, whether it comes first or last.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from pykbroker.coordinator.cluster import PeerBrokers
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.error_codes import ErrorCode, error_code
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

Refused = dict[TopicPartition, ErrorCode]


class WaitingAdmission:
    """The partitions of one transaction that wait for its coordinator, for one caller or several.

    `codes` has the error of each refused partition once the coordinator has responded, and is None until then.
    """

    __slots__ = ("add", "callers", "codes", "epoch", "partitions", "producer_id")

    def __init__(self, producer_id: int, epoch: int, partitions: Iterable[TopicPartition], *, add: bool) -> None:
        self.producer_id, self.epoch, self.add = producer_id, epoch, add
        self.partitions = set(partitions)
        self.callers = 0
        self.codes: Refused | None = None

    def fail(self, code: ErrorCode) -> None:
        """Refuse all partitions with this error."""
        self.codes = dict.fromkeys(self.partitions, code)

    def asked(self, transactional_id: str) -> AddPartitionsToTxnTransaction:
        """Return the entry of the request."""
        return AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            verify_only=not self.add,
            topics=[AddPartitionsToTxnTopic(*each) for each in indexes_by_topic(sorted(self.partitions)).items()],
        )

    def answer(self, result: AddPartitionsToTxnResult | None) -> None:
        """Take over the errors of a result. Partitions that the result lacks get UNKNOWN_SERVER_ERROR."""
        codes = {
            TopicPartition(topic.name, one.partition_index): error_code(one.partition_error_code)
            for topic in ([] if result is None else result.topic_results)
            for one in topic.results_by_partition
        }
        missing = ErrorCode.UNKNOWN_SERVER_ERROR
        self.codes = {place: code for place in self.partitions if (code := codes.get(place, missing))}


class WaitingAdmissions:
    """The verifications for one coordinator that no request has taken yet, by transactional id."""

    def __init__(self) -> None:
        self._waiting: dict[str, WaitingAdmission] = {}

    def add(self, transactional_id: str, new: WaitingAdmission) -> WaitingAdmission:
        """Add a verification, and return the one that it is combined with. Either may be refused at once."""
        known = self._waiting.get(transactional_id)
        if known is not None and known.epoch > new.epoch:
            new.fail(ErrorCode.INVALID_PRODUCER_EPOCH)
            return new
        if known is not None:
            if (known.producer_id, known.epoch, known.add) == (new.producer_id, new.epoch, new.add):
                known.partitions |= new.partitions
                return known
            fenced = known.epoch < new.epoch
            # NETWORK_EXCEPTION makes a producer repeat its batch, if it still waits for the response.
            known.fail(ErrorCode.INVALID_PRODUCER_EPOCH if fenced else ErrorCode.NETWORK_EXCEPTION)
        self._waiting[transactional_id] = new
        return new

    def drop(self, transactional_id: str, one: WaitingAdmission) -> None:
        """Drop a verification that nobody waits for any more."""
        if self._waiting.get(transactional_id) is one:
            del self._waiting[transactional_id]

    def take(self) -> dict[str, WaitingAdmission]:
        """Return all verifications, for one request."""
        taken, self._waiting = self._waiting, {}
        return taken


class RemoteAdmissions:
    """The verifications by coordinators on other brokers.

    A caller that finds no request in flight sends one for all that wait. All others wait for the end of that request.
    """

    def __init__(self, peers: PeerBrokers) -> None:
        self._peers = peers
        self._waiting: dict[int, WaitingAdmissions] = {}
        self._ends: dict[int, trio.Event] = {}
        """The end of the request in flight to each broker."""

    async def admit(
        self,
        node_id: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        add: bool,
    ) -> Refused:
        """Ask the coordinator on a broker whether the transaction may write to these partitions.

        Return the refused partitions with their errors. Without a response, all have NETWORK_EXCEPTION. With `add`, the
        coordinator adds the partitions to the transaction.
        """
        queue = self._waiting.setdefault(node_id, WaitingAdmissions())
        mine = queue.add(transactional_id, WaitingAdmission(producer_id, epoch, partitions, add=add))
        mine.callers += 1
        try:
            while mine.codes is None:
                # The request in flight may have been sent without this verification, which the next one then has: see
                # 1.
                if node_id in self._ends:
                    await self._ends[node_id].wait()
                else:
                    await self._send(node_id, queue.take())
        finally:
            mine.callers -= 1
            if not mine.callers:
                queue.drop(transactional_id, mine)
        # Other callers may have added partitions of their own: see 2.
        return {place: code for place, code in mine.codes.items() if place in partitions}

    async def _send(self, node_id: int, taken: dict[str, WaitingAdmission]) -> None:
        """Send one request, and answer all that it was sent for, even if the caller is cancelled meanwhile."""
        end = self._ends[node_id] = trio.Event()
        try:
            asked = [one.asked(transactional_id) for transactional_id, one in taken.items()]
            response = await self._peers.ask(node_id, AddPartitionsToTxnRequest(transactions=asked))
            answer(taken, response)
        except ApiError as error:
            fail(taken, error.code)
        finally:
            fail(taken, ErrorCode.NETWORK_EXCEPTION)
            del self._ends[node_id]
            end.set()


def answer(taken: dict[str, WaitingAdmission], response: AddPartitionsToTxnResponse) -> None:
    """Answer the verifications of a request."""
    if response.error_code:
        fail(taken, error_code(response.error_code))
        return
    results = {result.transactional_id: result for result in response.results_by_transaction}
    for transactional_id, one in taken.items():
        one.answer(results.get(transactional_id))


def fail(taken: dict[str, WaitingAdmission], code: ErrorCode) -> None:
    """Refuse all verifications that have no answer yet."""
    for one in taken.values():
        if one.codes is None:
            one.fail(code)
