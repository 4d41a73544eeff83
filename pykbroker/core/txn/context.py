"""What a request about transactions is decided from, beside the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykbroker.core.errors import ApiError
from pykbroker.core.txn.requests import ProducerIdSource, Reply
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.state import PREPARED
from pykbroker.core.txn.transaction import Transaction
from wire.error_codes import ErrorCode

TransactionDecision = tuple[Transaction | None, Reply]
"""The transaction as it becomes, if it changes; and the answer."""


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """The transactions as of the last replayed record. `renewals`: see `init_producer`."""

    transactions: Mapping[str, Transaction]
    renewals: dict[str, Renewal]
    settings: TransactionSettings
    producer_ids: ProducerIdSource
    wall_ms: int

    def check_ended(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """CONCURRENT_TRANSACTIONS: its producer goes on while the markers of its last one are being written."""
        known = self.transactions.get(transactional_id)
        if known is not None and known.state in PREPARED and known.successor == (producer_id, epoch):
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def of_producer(self, transactional_id: str, producer_id: int) -> Transaction:
        """The transaction, if it is this producer's. INVALID_PRODUCER_ID_MAPPING."""
        found = self.transactions.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def fenced(self, known: Transaction) -> Transaction:
        """Aborted by the coordinator. In version 2 that counts as an end whose answer its producer did not hear."""
        fenced = known.fenced(self.settings.transaction_version(), self.wall_ms)
        self.renewals.pop(known.transactional_id, None)
        if fenced.bumps_epoch:
            self.renewals[known.transactional_id] = Renewal(known.producer_id, fenced.epoch, known.epoch)
        return fenced

    def next_producer_id(self) -> int:
        """A producer id that nobody else has. COORDINATOR_LOAD_IN_PROGRESS: a block of them is on its way."""
        producer_id = self.producer_ids.next_nowait()
        if producer_id is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return producer_id


@dataclass(frozen=True, slots=True)
class Renewal:
    """The id and epoch that a producer was given for its `previous_epoch`: asking again is no reason to fence it."""

    producer_id: int
    epoch: int
    previous_epoch: int
