"""The futures of records, columns and commits, with kafka-python's methods."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any, Self, cast

from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.kafka.errors import KafkaTimeoutError, as_kafka
from pykbroker.kafka.structs import KafkaRecordMetadata
from pykbroker.producer.delivery import ColumnsDelivery, ColumnsResult, Delivery, RowsFailed
from pykbroker.producer.threaded import ThreadedProducer
from pykbroker.world.background import Future
from pykbroker.world.latch import Latch

log = logging.getLogger("pykbroker.kafka")


class KafkaFuture(ABC):
    """The outcome of a call that is not awaited. A subclass knows where the outcome comes from."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether the outcome is known."""

    @abstractmethod
    def _outcome(self) -> tuple[Any, BaseException | None]:
        """Return the value and the error of a future that is done."""

    @abstractmethod
    def _wait(self, timeout: float | None) -> bool:
        """Wait for the outcome, and return whether it is there after `timeout` seconds."""

    @abstractmethod
    def _when_done(self, callback: Callable[[], None]) -> None:
        """Call the function once the outcome is known, or at once."""

    @property
    def value(self) -> Any:
        """Return the value after success, otherwise None."""
        return self._outcome()[0] if self.is_done else None

    @property
    def exception(self) -> BaseException | None:
        """Return the error after a failure, otherwise None."""
        return self._outcome()[1] if self.is_done else None

    def succeeded(self) -> bool:
        """Whether the call is done, without an error."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Whether the call is done, with an error."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Whether the call has failed with an error after which another attempt may succeed."""
        return bool(getattr(self.exception, "retriable", False))

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the outcome, at most `timeout` seconds. Raise the error, or KafkaTimeoutError."""
        if not self._wait(timeout):
            raise KafkaTimeoutError(f"Timeout after waiting for {timeout} secs.")
        value, error = self._outcome()
        if error is not None:
            raise error
        return value

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call the function with the value after success."""
        self._when_done(partial(self._call, function, args, kwargs, on_error=False))
        return self

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call the function with the error after a failure."""
        self._when_done(partial(self._call, function, args, kwargs, on_error=True))
        return self

    def add_both(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        """Call the function with the value or the error."""
        return self.add_callback(function, *args, **kwargs).add_errback(function, *args, **kwargs)

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any, *, on_error: bool) -> None:
        value, error = self._outcome()
        if (error is not None) is not on_error:
            return
        try:
            function(*args, error if on_error else value, **kwargs)
        except Exception:
            log.exception("Error processing %s", "errback" if on_error else "callback")


class FutureRecordMetadata(KafkaFuture):
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

    def _wait(self, timeout: float | None) -> bool:
        delivery = self._delivery
        return delivery is None or self._producer.wait_settled(delivery.batch, timeout)

    def _when_done(self, callback: Callable[[], None]) -> None:
        delivery = self._delivery
        if delivery is None or not self._producer.call_when_settled(delivery.batch, callback):
            callback()

    def _outcome(self) -> tuple[KafkaRecordMetadata | None, BaseException | None]:
        if self._delivery is None:
            return None, self._error
        partition = self._delivery.batch.partition
        try:
            _, _, offset, timestamp = self._delivery.result()
        except Exception as error:  # noqa: BLE001 - the caller gets the record's error
            return None, as_kafka(error)
        return KafkaRecordMetadata(*partition, partition, offset, timestamp, None, *self._sizes), None


class CommitFuture(KafkaFuture):
    """The outcome of one `commit_async`. Its value is None. Callbacks run in the consumer's thread, or at once.

    It has no lock, so that an interrupt in the user's thread never stops the consumer's.
    """

    __slots__ = ("_callbacks", "_future")

    def __init__(self) -> None:
        self._future: Future[None] | None = None
        self._callbacks: deque[Callable[[], None]] = deque()

    def settle(self, future: Future[None]) -> None:
        """Take the outcome of a future that is done, and call back, in the consumer's thread."""
        self._future = future
        self._call_back()

    @property
    def is_done(self) -> bool:
        """Whether the commit has succeeded or failed."""
        return self._future is not None

    def _wait(self, timeout: float | None) -> bool:
        done = Latch()
        self._when_done(done.set)
        return done.wait(timeout)

    def _when_done(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if self.is_done:
            self._call_back()

    def _call_back(self) -> None:
        """Call each callback once, though both threads may be here at the same time."""
        while True:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            callback()

    def _outcome(self) -> tuple[None, BaseException | None]:
        assert self._future is not None, "the future is done"
        error = self._future.exception()
        return None, None if error is None else as_kafka(error)


class FutureColumns(KafkaFuture):
    """The outcome of all rows of one `send_many`. Its value is a ColumnsResult, and its error a RowsFailed.

    Callbacks run once the outcome of every row is known, in the producer's thread, or at once if it is known already.
    """

    __slots__ = ("_delivery", "_producer")

    def __init__(self, producer: ThreadedProducer, delivery: ColumnsDelivery) -> None:
        self._producer, self._delivery = producer, delivery

    @property
    def is_done(self) -> bool:
        """Whether the outcome of every row is known."""
        return self._delivery.is_done

    def get(self, timeout: float | None = None) -> ColumnsResult:
        """Wait for the outcome, at most `timeout` seconds, and return the partition and the offset of each row.

        Raise RowsFailed with kafka-python's errors if some rows failed, and KafkaTimeoutError after `timeout`.
        """
        result: ColumnsResult = super().get(timeout)
        return result

    def _wait(self, timeout: float | None) -> bool:
        deadline = inf if timeout is None else time.monotonic() + timeout
        wait = self._producer.wait_settled
        return all(wait(batch, deadline - time.monotonic()) for batch, _, _ in self._delivery.parts)

    def _when_done(self, callback: Callable[[], None]) -> None:
        self._call_after(iter([batch for batch, _, _ in self._delivery.parts]), callback)

    def _call_after(self, batches: Iterator[ProducerBatch], callback: Callable[[], None]) -> None:
        """Call the function once the outcomes of these batches are known. Each batch is waited for in turn."""
        for batch in batches:
            if self._producer.call_when_settled(batch, partial(self._call_after, batches, callback)):
                return
        callback()

    def _outcome(self) -> tuple[ColumnsResult | None, RowsFailed | None]:
        try:
            return self._delivery.result(), None
        except RowsFailed as failed:
            errors = {row: cast(Exception, as_kafka(error)) for row, error in failed.errors.items()}
            error = RowsFailed(errors, failed.result)
            error.__cause__ = failed
            return None, error
