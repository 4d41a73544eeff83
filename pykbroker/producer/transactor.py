"""The task that sends the requests of a transaction manager to the coordinators, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from math import inf
from typing import Any

import trio

from pykbroker.client.coordinators import Coordinators
from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.client.timer import wait_s
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.accumulator import RecordAccumulator
from pykbroker.core.producer.errors import NOT_ABORTED, TransactionTimeout
from pykbroker.core.producer.sender import Sender
from pykbroker.core.producer.transactions.calls import CoordinatorCall
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.producer.transactions.result import CallResult
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.find_coordinator import CoordinatorType


class Transactor:
    """The link between a transaction manager and the network. The manager is used under the lock.

    `has_incomplete` returns whether the outcome of a batch is unknown. `send_due` is called after each event.
    """

    def __init__(
        self,
        manager: TransactionManager,
        nodes: Nodes,
        metadata: ClusterMetadata,
        coordinators: Coordinators,
        lock: AbstractContextManager[Any],
        clock: tuple[Callable[[], float], float],
        has_incomplete: Callable[[], bool],
        send_due: Callable[[], None],
    ) -> None:
        self.manager, self._nodes, self._coordinators, self._lock = manager, nodes, coordinators, lock
        self._metadata = metadata
        self._now_ms, self._max_block_ms = clock
        self._has_incomplete, self._send_due = has_incomplete, send_due
        self._woken = trio.Event()

    def wake(self) -> None:
        """Check whether a request is due. Call this in the trio thread after every event."""
        self._woken.set()

    def follow(self, accumulator: RecordAccumulator, sender: Sender) -> None:
        """Fail the batches that the transaction gives up, and send the others at once when it ends, under the lock."""
        accumulator.is_completing = self.manager.is_completing
        abort = self.manager.batch_abort
        if abort is not None:
            sender.abort(abort.error, unsent_only=abort.unsent_only)

    async def call(self, call: Callable[[TransactionManager], CallResult]) -> None:
        """Make a call of the transaction protocol, and wait up to `max_block_ms` for its result.

        Raise IllegalCall, TransactionError, or TransactionTimeout, after which the same call may be repeated.
        """
        self.acknowledge(await self.result_of(call))

    def acknowledge(self, result: CallResult) -> None:
        """Note that the application gets the result of a call, and raise its error."""
        with self._lock:
            result.acknowledge()

    async def result_of(self, call: Callable[[TransactionManager], CallResult]) -> CallResult:
        """Make a call as `call` does, and return its result, which is done. The application has not got it so far."""
        with self._lock:
            result = call(self.manager)
        self._send_due()
        await self._wait(result)
        if not result.is_done:
            raise TransactionTimeout(
                f"{result.call.value} has no result after max_block_ms={self._max_block_ms}:"
                f" {self._metadata.connection_failure or 'call it again'}"
            )
        return result

    async def call_now(self, call: Callable[[TransactionManager], None]) -> None:
        """Make a call of the transaction protocol that needs no answer."""
        await trio.lowlevel.checkpoint()
        with self._lock:
            call(self.manager)

    async def _wait(self, result: CallResult) -> None:
        """Wait for the result of a call, up to `max_block_ms`."""
        done = trio.Event()
        with self._lock:
            result.when_done(done.set)
        with trio.move_on_after(self._max_block_ms / 1000):
            await done.wait()

    async def give_up(self, error: BaseException | None = None) -> None:
        """Abort the open transaction, when its block has failed with `error`, or the producer is closed.

        A commit or an abort whose call was cancelled or timed out goes on. Its end is waited for instead, since readers
        wait for it, too, unless `error` says that the wait is over. An error of the abort is not raised, since the
        earlier one is of more interest.
        """
        with suppress(*NOT_ABORTED):
            if isinstance(error, TransactionTimeout):
                await self.call(TransactionManager.abort)
                return
            ending = self.manager.unanswered_end
            if ending is not None:
                await self._wait(ending)
                with self._lock:
                    ending.is_acknowledged = ending.is_done
            if self.manager.has_transaction and not self.manager.is_completing:
                await self.call(TransactionManager.abort)

    # ---- the task

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Send requests until cancelled."""
        while True:
            self._woken = trio.Event()
            call, seconds = self._next()
            if call is None:
                with trio.move_on_after(seconds):
                    await self._woken.wait()
                continue
            await self._send(call)
            self._send_due()

    def _next(self) -> tuple[CoordinatorCall | None, float]:
        """Return the request to send now, or else the seconds until the next one is due."""
        now_ms, requests = self._now_ms(), self.manager.requests
        with self._lock:
            has_incomplete = self._has_incomplete()
            call = requests.next_call(now_ms, has_incomplete=has_incomplete)
            due_ms = inf if call is not None else requests.next_check_ms(has_incomplete=has_incomplete)
        return call, wait_s(due_ms, now_ms)

    async def _send(self, call: CoordinatorCall) -> None:
        kind, requests = CoordinatorType(call.coordinator.value), self.manager.requests
        try:
            response = await self._ask(call, kind)
        except UnsupportedVersion as error:
            with self._lock:
                requests.refused(call, ApiError(ErrorCode.UNSUPPORTED_VERSION, str(error)))
        except AuthenticationError as error:
            with self._lock:
                requests.refused(call, ApiError(error.code or ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)))
        except ApiError as error:
            with self._lock:
                requests.refused(call, error)
        except (OSError, Disconnected):
            self._coordinators.forget(kind, call.key)
            with self._lock:
                requests.disconnected(call, self._now_ms())
        else:
            with self._lock:
                is_moved = requests.received(call, response, self._now_ms())
            if is_moved:
                self._coordinators.forget(kind, call.key)

    async def _ask(self, call: CoordinatorCall, kind: CoordinatorType) -> Any:
        """Send a request to its coordinator and return the response."""
        node = await self._coordinators.find(kind, call.key)
        connection = await self._nodes.connection(node)
        if kind is CoordinatorType.TRANSACTION:
            with self._lock:
                self.manager.update_features(connection.features_epoch, connection.features)
                self.manager.coordinator_ready(connection.newest_version(ApiKey.INIT_PRODUCER_ID))
        request = call.request()
        version = min(connection.newest_version(request.key), call.version_max)
        return await self._nodes.ask(node, request, version)
