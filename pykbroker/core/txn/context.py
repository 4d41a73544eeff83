"""The state from which the transaction coordinator decides a request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.producer_epoch import is_exhausted
from pykbroker.core.txn.requests import ProducerIdSource, Reply
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.state import PREPARED
from pykbroker.core.txn.transaction import EPOCH_BUMP_VERSION, Transaction
from wire.error_codes import ErrorCode
from wire.sentinels import NO_PRODUCER_ID

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
        if known is not None and known.state in PREPARED and known.next_producer == (producer_id, epoch):
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def of_producer(self, transactional_id: str, producer_id: int) -> Transaction:
        """Return the transaction. Raise ApiError INVALID_PRODUCER_ID_MAPPING if it belongs to another producer id."""
        found = self.transactions.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def ended(self, known: Transaction, *, commit: bool, client_version: int) -> Transaction:
        """Return the transaction as its producer decides it.

        Raise ApiError COORDINATOR_LOAD_IN_PROGRESS if it needs a new producer id, and none is at hand.
        """
        next_id = self._next_id(known, client_version)
        ended = known.ended(
            commit=commit, client_version=client_version, next_producer_id=next_id, wall_ms=self.wall_ms
        )
        self._note_renewal(known, ended)
        return ended

    def fenced(self, known: Transaction) -> Transaction:
        """Return the transaction as aborted by the coordinator. Raise the error of `ended`.

        In transaction version 2 the producer may go on: it repeats InitProducerId with its old epoch.
        """
        version = self.settings.transaction_version()
        # The producer does not take part, so the version of the cluster decides instead of its own.
        client_version = version if version >= EPOCH_BUMP_VERSION else 0
        next_id = self._next_id(known, client_version)
        fenced = known.fenced(client_version=client_version, next_producer_id=next_id, wall_ms=self.wall_ms)
        # An earlier renewal would let the producer that is fenced here continue.
        self.renewals.pop(known.transactional_id, None)
        self._note_renewal(known, fenced)
        return fenced

    def _next_id(self, known: Transaction, client_version: int) -> int:
        """Return the producer id that follows if the end of the transaction uses the last epoch, else -1.

        Up to version 1 the end leaves the epoch as it is, and a fenced producer gets its next id from InitProducerId.
        """
        uses_last = client_version >= EPOCH_BUMP_VERSION and is_exhausted(known.epoch)
        return self.next_producer_id() if uses_last else NO_PRODUCER_ID

    def _note_renewal(self, known: Transaction, ended: Transaction) -> None:
        if ended.bumps_epoch:
            self.renewals[known.transactional_id] = Renewal(*ended.next_producer, known.epoch)

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
