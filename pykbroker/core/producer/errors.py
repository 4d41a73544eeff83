"""The errors of the producer's pure half, which its faces raise as they are."""

from __future__ import annotations

from pykbroker.core.errors import ApiError


class RecordTooLarge(ValueError):
    """The error of a record that can never be sent with the producer's settings."""


class ProducerClosed(RuntimeError):
    """The error of a call on a producer that is closed or is being closed."""


class UnknownPartition(ValueError):
    """The error of a record for a partition that its topic lacks."""


class DeliveryExpired(ApiError):
    """The error of a record that no broker acknowledged within `delivery.timeout.ms`. It may be written."""


class BufferExhausted(TimeoutError):
    """The error of a record for which no memory became free within `max.block.ms`."""


class MetadataTimeout(TimeoutError):
    """The error of a record whose topic or partition was still unknown after `max.block.ms`."""
