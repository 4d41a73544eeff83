"""The configs and the feature level that the transaction coordinator depends on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pykbroker.core.config.config import BrokerConfig

TRANSACTION_FEATURE = "transaction.version"


class TransactionSettings(msgspec.Struct, frozen=True):
    """Settings with Kafka's defaults. Times are in ms. `transaction_version` returns that feature's finalized level."""

    transaction_version: Callable[[], int]
    timeout_ms_max: int = 900_000
    expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expire_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, config: BrokerConfig, transaction_version: Callable[[], int]) -> TransactionSettings:
        """Build the settings from the broker's configs."""
        return cls(
            transaction_version,
            timeout_ms_max=config.transaction_max_timeout_ms,
            expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expire_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        )
