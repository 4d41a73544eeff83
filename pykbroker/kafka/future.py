"""The future of a record, with kafka-python's methods."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from pykbroker.kafka.errors import KafkaTimeoutError, as_kafka
from pykbroker.kafka.structs import KafkaRecordMetadata
from pykbroker.producer.delivery import Delivery
from pykbroker.producer.threaded import ThreadedProducer

log = logging.getLogger("pykbroker.kafka")


class FutureRecordMetadata:
    """The outcome of one `send`. Callbacks run in the producer's thread, or at once if the outcome is known."""

    __slots__ = ("_delivery", "_error", "_producer", "_sizes")

    def __init__(
        self,
        producer: ThreadedProducer,
        delivery: Delivery | None,
        sizes: tuple[int, int, int],
        error: BaseException | None = None,
    ) -> None:
        self._producer, self._delivery, self._sizes, self._error = producer, delivery, sizes, error

    @property
    def is_done(self) -> bool:
        """Whether the record is written or has failed."""
        return self._delivery is None or self._delivery.is_done

    @property
    def value(self) -> KafkaRecordMetadata | None:
        """Return the metadata of a record that is written, otherwise None."""
        return self._outcome()[0] if self.is_done else None

    @property
    def exception(self) -> BaseException | None:
        """Return the error of a record that has failed, otherwise None."""
        return self._outcome()[1] if self.is_done else None

    def succeeded(self) -> bool:
        """Whether the record is written."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Whether the record has failed."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Whether the record has failed with an error after which another `send` may succeed."""
        return bool(getattr(self.exception, "retriable", False))

    def get(self, timeout: float | None = None) -> KafkaRecordMetadata:
        """Wait for the outcome, at most `timeout` seconds. Raise the record's error, or KafkaTimeoutError."""
        delivery = self._delivery
        if delivery is not None and not self._producer.wait_settled(delivery.batch, timeout):
            raise KafkaTimeoutError(f"Timeout after waiting for {timeout} secs.")
        value, error = self._outcome()
        if value is None:
            assert error is not None, "a record without metadata has an error"
            raise error
        return value

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call the function with the metadata once the record is written."""
        self._when_done(partial(self._call, function, args, kwargs, on_error=False))
        return self

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call the function with the error once the record has failed."""
        self._when_done(partial(self._call, function, args, kwargs, on_error=True))
        return self

    def add_both(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call the function with the metadata or the error."""
        return self.add_callback(function, *args, **kwargs).add_errback(function, *args, **kwargs)

    def _when_done(self, callback: Callable[[], None]) -> None:
        delivery = self._delivery
        if delivery is None or not self._producer.call_when_settled(delivery.batch, callback):
            callback()

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any, *, on_error: bool) -> None:
        value, error = self._outcome()
        if (error is not None) is not on_error:
            return
        try:
            function(*args, error if on_error else value, **kwargs)
        except Exception:
            log.exception("Error processing %s", "errback" if on_error else "callback")

    def _outcome(self) -> tuple[KafkaRecordMetadata | None, BaseException | None]:
        if self._delivery is None:
            return None, self._error
        partition = self._delivery.batch.partition
        try:
            _, _, offset, timestamp = self._delivery.result()
        except Exception as error:  # noqa: BLE001 - the caller gets the record's error
            return None, as_kafka(error)
        return KafkaRecordMetadata(*partition, partition, offset, timestamp, None, *self._sizes), None
