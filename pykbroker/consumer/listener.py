"""The rebalance listener of a user, and its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from trio.lowlevel import disable_ki_protection

from pykbroker.core.consumer.membership.steps import CallListener, RebalanceEvent


class RebalanceListener:
    """A listener that does nothing, as a base class. All partitions are sets of TopicPartition.

    A listener needs only the methods that it uses. On trio and asyncio, they may be async functions. A call that Ctrl-C
    or another error of a signal handler ends is repeated by the next poll, or before the consumer leaves the group. One
    that raises another error, or is cancelled with the poll, is over, and its partitions are given up or taken.
    """

    def on_partitions_assigned(self, partitions: Any) -> Any:
        """Handle partitions that the consumer now has, for example by a seek. No record of them was returned yet."""

    def on_partitions_revoked(self, partitions: Any) -> Any:
        """Handle partitions that the consumer gives up, for example by a commit."""

    def on_partitions_lost(self, partitions: Any) -> Any:
        """Handle partitions that the consumer has lost, so that a commit would fail. By default, as if revoked."""
        return self.on_partitions_revoked(partitions)


@disable_ki_protection
def call_listener(listener: Any, step: CallListener) -> Any:
    """Call a listener, and return what it returned. A listener without `on_partitions_lost` hears of revoked ones."""
    method = getattr(listener, step.event.value, None)
    if method is None and step.event is RebalanceEvent.LOST:
        method = getattr(listener, RebalanceEvent.REVOKED.value, None)
    return None if method is None else method(set(step.partitions))


@contextmanager
def answering(
    answer: Callable[[CallListener, bool], Any], step: CallListener, cancelled: type[BaseException] = Exception
) -> Iterator[None]:
    """Answer a call of the listener, which is the block, with whether the block has ended without an error.

    `cancelled` is the error of a cancellation. If an interrupt ends the block, there is no answer: the next poll
    repeats the call, or the end of the membership.
    """
    try:
        yield
    except (Exception, cancelled):
        answer(step, False)
        raise
    answer(step, True)
