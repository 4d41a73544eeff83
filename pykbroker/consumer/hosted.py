"""A consumer whose shell runs in a background thread, for callers in another thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from math import inf
from typing import Any

import trio

from pykbroker.consumer.consumer import Consumer
from pykbroker.consumer.settings import ConsumerSettings
from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.consumer.errors import ConsumerClosed, ConsumerTimeout
from pykbroker.core.consumer.membership.steps import CallListener
from pykbroker.core.consumer.records import ReadRecords
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.world.background import BackgroundLoop, Future, LoopEnded
from pykbroker.world.client_world import ClientWorld
from pykbroker.world.system import system_client_world
from wire.records.column_reader import read_columns


class HostedConsumer:
    """The common part of consumers for threads and for asyncio.

    A poll in the background leaves its records in `unread`, from where the caller takes them.
    """

    def __init__(
        self, settings: ConsumerSettings, world: ClientWorld | None = None, reads: ReadRecords = read_columns
    ) -> None:
        self.settings = settings
        self.shell = ConsumerShell(settings, world or system_client_world(), reads)
        self.consumer = Consumer.over(self.shell)
        self.unread = self.shell.unread
        self.loop = BackgroundLoop(settings.client_id, self._run)
        self._is_running = trio.Event()
        self.loop.start()

    async def _run(self) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.shell.run)
            self._is_running.set()

    def submit(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout_s: float = inf,
        done: Callable[[Future[Any]], object] | None = None,
    ) -> Future[Any]:
        """Call a function, or an async one, in the background. Return the future of its result.

        The function is cancelled with the future. ConsumerTimeout is its error after `timeout_s`. `done` is called with
        the future, in the background, once its outcome is known.
        """
        self._check_open()
        return self.loop.submit(self._called, function, args, timeout_s, done=done)

    def ask(self, function: Callable[..., Any], *args: Any, timeout_s: float = inf) -> Any:
        """Call a function as `submit` does, and return its result. Raise its error."""
        self.loop.check_may_wait()
        self._check_open()
        with self._ending():
            return self.loop.call(self._called, function, args, timeout_s)

    async def call_async(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function as `ask` does, from asyncio. A cancelled call cancels the function."""
        self._check_open()
        with self._ending():
            return await self.loop.call_async(self._called, function, args, inf)

    def _check_open(self) -> None:
        if self.shell.is_closed:
            raise ConsumerClosed("the consumer is closed")

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Raise ConsumerClosed from a call during which the loop has ended, or LoopEnded if the loop has failed."""
        try:
            yield
        except LoopEnded as error:
            if error.__cause__ is not None:
                raise
            raise ConsumerClosed("the consumer was closed during the call") from error

    async def _called(self, function: Callable[..., Any], args: tuple[Any, ...], timeout_s: float) -> Any:
        with trio.move_on_after(timeout_s):
            await self._is_running.wait()
            result = function(*args)
            return await result if isawaitable(result) else result
        raise ConsumerTimeout(f"no answer within {timeout_s:g} s: {self.shell.advice}")

    async def poll(
        self, timeout_s: float, records_max: int, cuts_batch: bool, among: Collection[TopicPartition] = ()
    ) -> CallListener | None:
        """Wait for records as `ConsumerPoller.poll` does, in the background thread.

        Return a call of the listener, which the caller has to answer by `ConsumerPoller.listener_called`.
        """
        deadline = trio.current_time() + timeout_s
        return await self.consumer.poller.poll(deadline, records_max, cuts_batch=cuts_batch, among=among)

    def rewind(self) -> None:
        """Let the next poll return the unread records of an iteration as columns."""
        if self.unread.iterated():
            self.ask(self.shell.rewind)

    def stop(self) -> None:
        """Close the links and end the thread."""
        if not self.shell.is_closed:
            self.loop.call_soon(self.shell.close_links)
        self.loop.stop()
