"""The state from which the transaction coordinator decides a request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.txn.requests import ProducerIdSource, Reply
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.state import PREPARED
from pykbroker.core.txn.transaction import Transaction
from wire.error_codes import ErrorCode

TransactionDecision = tuple[Transaction | None, Reply]
"""The changed transaction, or None if nothing changes, and the reply."""


class TransactionContext(msgspec.Struct, frozen=True):
    """The state of all transactions, with the last record replayed. The module `init_producer` explains `renewals`."""

    transactions: Mapping[str, Transaction]
    renewals: dict[str, Renewal]
    settings: TransactionSettings
    producer_ids: ProducerIdSource
    wall_ms: int

    def check_ended(self, transactional_id: str, producer_id: int, epoch: int) -> None:
        """Raise ApiError CONCURRENT_TRANSACTIONS until the markers of this producer's last transaction are written."""
        known = self.transactions.get(transactional_id)
        if known is not None and known.state in PREPARED and known.successor == (producer_id, epoch):
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def of_producer(self, transactional_id: str, producer_id: int) -> Transaction:
        """Return the transaction. Raise ApiError INVALID_PRODUCER_ID_MAPPING if it belongs to another producer id."""
        found = self.transactions.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def fenced(self, known: Transaction) -> Transaction:
        """Return the transaction as aborted by the coordinator.

        In transaction version 2 the abort bumps the epoch. The producer can then repeat InitProducerId with its old
        epoch.
        """
        fenced = known.fenced(self.settings.transaction_version(), self.wall_ms)
        self.renewals.pop(known.transactional_id, None)
        if fenced.bumps_epoch:
            self.renewals[known.transactional_id] = Renewal(known.producer_id, fenced.epoch, known.epoch)
        return fenced

    def next_producer_id(self) -> int:
        """Return an unused producer id.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS until the next block of ids has arrived.
        """
        producer_id = self.producer_ids.next_nowait()
        if producer_id is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return producer_id


class Renewal(msgspec.Struct, frozen=True):
    """The producer id and epoch that replaced `previous_epoch`.

    A producer that repeats InitProducerId with the previous epoch gets the same reply and is not fenced.
    """

    producer_id: int
    epoch: int
    previous_epoch: int
