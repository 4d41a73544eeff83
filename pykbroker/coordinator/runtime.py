"""All coordinators of one kind on this broker: a state machine for each led partition of their topic."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import trio

from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.log import CoordinatorLog, not_coordinator
from pykbroker.coordinator.machine import CoordinatorMachine
from pykbroker.coordinator.partition import CoordinatorPartition
from pykbroker.coordinator.partition_log import PartitionLog
from pykbroker.core.coordinator.key import partition_of
from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.machines.call import Call, refused
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.turns import Turns
from wire.declare import Response

COMMIT_S_MAX = 5
"""The default of offsets.commit.timeout.ms, in seconds."""


class Runtime:
    """The coordinator partitions of one topic.

    `follow` sets which are led, `run` runs them, `ask` may be called at any time. A caller whose records are not
    committed within `commit_s_max` gets COORDINATOR_NOT_AVAILABLE, unless the state machine names another time.
    """

    def __init__(
        self,
        topic: str,
        new_machine: Callable[[], CoordinatorMachine],
        framing: Batches,
        wall_ms: Callable[[], int],
        off_loop: OffLoop,
        turns: Turns,
        commit_s_max: float = COMMIT_S_MAX,
    ) -> None:
        self._topic, self._new_machine, self._framing = topic, new_machine, framing
        self._wall_ms, self._off_loop = wall_ms, off_loop
        self._partitions, self._turns, self._commit_s_max = 0, turns, commit_s_max
        self._led: dict[int, CoordinatorPartition] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._changed, self._replaying = trio.Event(), trio.Lock()

    def partition_of(self, name: str) -> int:
        """Return the partition of a group or transactional id.

        Raise ApiError NOT_COORDINATOR if the topic does not exist.
        """
        if not self._partitions:
            raise not_coordinator()
        return partition_of(name, self._partitions)

    def ask(self, name: str, request: Any, verification: Verification | None = None) -> Call:
        """Pass a request to the coordinator of this group or transactional id.

        The call is refused if this broker does not have the coordinator.
        """
        try:
            return self.ask_at(self.partition_of(name), request, verification)
        except ApiError as error:
            return refused(error)

    def answer(self, name: str, request: Any) -> Response | Coroutine[Any, Any, Response]:
        """Return the response of the coordinator of this group or transactional id, or a coroutine that waits for it.

        Unlike with `ask`, a request to a coordinator that is loading waits for at most `commit_s_max`: librdkafka
        repeats an OffsetCommit only twice, and then reports COORDINATOR_LOAD_IN_PROGRESS to its caller. Requests reach
        the coordinator in the order of the calls. Raise ApiError as `ask_at` does.
        """
        partition = self._led.get(self.partition_of(name))
        if partition is None:
            raise not_coordinator()
        return partition.answer(request)

    def ask_at(self, index: int, request: Any, verification: Verification | None = None) -> Call:
        """Pass a request to the coordinator of one partition.

        With `verification`, the records that the request writes may begin a transaction. Raise ApiError:
        NOT_COORDINATOR if this broker does not lead the partition, COORDINATOR_LOAD_IN_PROGRESS while it is loading.
        """
        partition = self._led.get(index)
        if partition is None:
            raise not_coordinator()
        return partition.ask(request, verification)

    def ask_all(self, request: Any) -> Iterator[Call]:
        """Pass a request to the coordinators of all led partitions, lazily. Raise ApiError as `ask_at` does."""
        for index in sorted(self._led):
            yield self.ask_at(index, request)

    def notify(self, notice: Any) -> None:
        """Pass a notice, which has no reply, to the coordinators of all led partitions."""
        for partition in self._led.values():
            partition.notify(notice)

    def follow(self, partitions: int, led: Mapping[int, PartitionLog]) -> None:
        """Set the topic's number of partitions, and the partitions that this broker leads in their current epochs."""
        self._partitions = partitions
        for index in [
            index
            for index, partition in self._led.items()
            # Another broker may have led the partition between two epochs of this one, so that the log is read anew.
            if index not in led or led[index].leader_epoch != partition.leader_epoch
        ]:
            del self._led[index]
            scope = self._scopes.pop(index, None)
            if scope is not None:
                scope.cancel()
        for index, partition_log in led.items():
            if index not in self._led:
                log = CoordinatorLog(partition_log, self._framing, self._off_loop)
                self._led[index] = CoordinatorPartition(
                    f"{self._topic}-{index}",
                    log,
                    self._new_machine,
                    self._wall_ms,
                    self._turns,
                    self._replaying,
                    self._commit_s_max,
                )
                self._changed.set()

    async def run(self) -> None:
        """Run the coordinators of all led partitions until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                for index, partition in self._led.items():
                    if index not in self._scopes:
                        self._scopes[index] = scope = trio.CancelScope()
                        nursery.start_soon(_within, scope, partition)
                await self._changed.wait()


async def _within(scope: trio.CancelScope, partition: CoordinatorPartition) -> None:
    with scope:
        await partition.run()
