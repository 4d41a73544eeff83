"""The settings of a producer, with the names and defaults of Kafka 4.3.1."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from pykbroker.client.settings import (
    INT32_MAX,
    AnyBytes,
    Bytes,
    ClientSettings,
    InvalidSetting,
    Ms,
    check_function,
    check_interceptors,
    settings,
)
from pykbroker.core.producer.accumulator import BatchSettings, large_batch_bytes
from pykbroker.core.producer.sender import SendSettings
from pykbroker.producer.interceptors import PRODUCER_METHODS
from wire.records.compression import LEVEL_DEFAULT, LEVELS, Codec
from wire.sentinels import ACKS_ALL

INT64_MAX = (1 << 63) - 1
IN_FLIGHT_MAX = 5
"""The requests in flight up to which an idempotent producer keeps the order of retries."""
ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, -1: ACKS_ALL, "0": 0, 0: 0, "1": 1, 1: 1}
CODECS = {None: Codec.NONE, "none": Codec.NONE} | {codec.name.lower(): codec for codec in Codec}

log = logging.getLogger("pykbroker.producer")


class ProducerSettings(ClientSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a producer. None stands for a default that depends on other settings."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1] | None = None
    enable_idempotence: bool | None = None
    retries: Annotated[int, Meta(ge=0, le=INT32_MAX)] | None = None
    max_in_flight_requests_per_connection: Annotated[int, Meta(ge=1)] | None = None
    batch_size: AnyBytes | None = None
    linger_ms: Annotated[float, Meta(ge=0, le=INT64_MAX)] = 5
    buffer_memory: Annotated[int, Meta(ge=1)] = 32 << 20
    max_block_ms: Annotated[int, Meta(ge=0)] = 60_000
    max_request_size: Bytes = 1 << 20
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None
    compression_level: int | None = None
    delivery_timeout_ms: Ms | None = None
    metadata_max_idle_ms: Ms = 300_000
    partitioner: Literal["sticky", "round_robin"] | None = None
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    transactional_id: Annotated[str, Meta(min_length=1)] | None = None
    transaction_timeout_ms: Ms = 60_000
    key_serializer: Any = None
    value_serializer: Any = None
    interceptors: Sequence[Any] = ()

    @property
    def acks_number(self) -> int:
        """Return the acks of a Produce request: -1 for all replicas in sync, 1 for the leader, 0 for none."""
        return ACKS_ALL if self.acks is None else ACKS[self.acks]

    @property
    def is_idempotent(self) -> bool:
        """Whether the producer writes each record once. This is the default, unless another setting rules it out."""
        if self.transactional_id is not None:
            return True
        if self.enable_idempotence is None:
            return self._conflict is None
        return self.enable_idempotence

    @property
    def in_flight_max(self) -> int:
        """Return the maximum number of requests in flight to a broker."""
        return self.max_in_flight_requests_per_connection or IN_FLIGHT_MAX

    @property
    def delivery_ms(self) -> int:
        """Return the time in ms after which a record that was not acknowledged fails."""
        least = int(self.linger_ms) + self.request_timeout_ms
        # Kafka's default of 2 minutes, which a longer least time replaces (`KafkaProducer.configureDeliveryTimeout`).
        return max(120_000, least) if self.delivery_timeout_ms is None else self.delivery_timeout_ms

    @property
    def _conflict(self) -> str | None:
        """Return the setting that rules out idempotence, if there is one."""
        if self.acks is not None and self.acks_number != ACKS_ALL:
            return f"acks={self.acks}"
        if self.retries == 0:
            return "retries=0"
        if self.in_flight_max > IN_FLIGHT_MAX:
            return f"max_in_flight_requests_per_connection={self.in_flight_max}"
        return None

    @property
    def batch_bytes(self) -> int:
        """Return the bytes that fill a batch. Rows of `send_many` may share a larger one if `batch_size` is not set."""
        return BatchSettings().batch_bytes if self.batch_size is None else self.batch_size

    def batches(self) -> BatchSettings:
        large = large_batch_bytes(self.max_request_size, self.buffer_memory) if self.batch_size is None else 0
        return BatchSettings(
            self.batch_bytes,
            self.linger_ms,
            self.delivery_ms,
            CODECS[self.compression_type],
            self.compression_level,
            large,
        )

    def sending(self) -> SendSettings:
        return SendSettings(
            self.acks_number,
            self.max_request_size,
            INT32_MAX if self.retries is None else self.retries,
            self.retry_backoff_ms,
            self.retry_backoff_max_ms,
            keeps_order_by_muting=self.in_flight_max == 1,
        )

    def check(self) -> None:
        """Raise InvalidSetting if settings contradict each other. Log it if they disable idempotence by default."""
        conflict = self._conflict
        wants = "transactional_id" if self.transactional_id is not None else "enable_idempotence=True"
        if conflict is not None and conflict.startswith("max_in_flight") and self.enable_idempotence is not False:
            raise InvalidSetting(f"{conflict} is more than {IN_FLIGHT_MAX}, the maximum of an idempotent producer")
        if conflict is not None and (self.enable_idempotence or self.transactional_id is not None):
            raise InvalidSetting(f"{conflict} contradicts {wants}, which needs acks='all' and retries")
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise InvalidSetting("enable_idempotence=False contradicts transactional_id: leave out one of them")
        if self.buffer_memory < self.batch_bytes:
            raise InvalidSetting(
                f"buffer_memory={self.buffer_memory} is less than batch_size={self.batch_bytes}: no batch has memory"
            )
        if self.delivery_ms < self.linger_ms + self.request_timeout_ms:
            raise InvalidSetting(
                f"delivery_timeout_ms={self.delivery_ms} is less than linger_ms + request_timeout_ms, which is "
                f"{self.linger_ms + self.request_timeout_ms:g}"
            )
        self._check_level()
        check_function("key_serializer", self.key_serializer)
        check_function("value_serializer", self.value_serializer)
        check_interceptors(self.interceptors, PRODUCER_METHODS)
        if conflict is not None and self.enable_idempotence is None:
            log.info("the producer is not idempotent, because %s is set: a retry may write a record twice", conflict)

    def _check_level(self) -> None:
        level, codec = self.compression_level, CODECS[self.compression_type]
        if level is None or level == LEVEL_DEFAULT.get(codec):
            return
        if codec not in LEVELS:
            raise InvalidSetting(f"compression_level has no meaning for compression_type={self.compression_type}")
        levels = LEVELS[codec]
        if level not in levels:
            raise InvalidSetting(
                f"compression_level={level} is not allowed: {self.compression_type} has the levels {levels.start} to "
                f"{levels.stop - 1}"
            )


def producer_settings(given: Mapping[str, Any]) -> ProducerSettings:
    """Return the settings of a producer. Raise InvalidSetting for a name, value or combination that is not allowed."""
    found = settings(ProducerSettings, given)
    found.check()
    return found
