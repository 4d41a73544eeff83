"""The state machine of one coordinator partition: loaded from the log, run, and loaded again after each failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import trio

from pykbroker.coordinator.early_requests import EarlyRequests
from pykbroker.coordinator.log import CoordinatorLog, not_coordinator
from pykbroker.coordinator.machine import CoordinatorMachine
from pykbroker.core.coordinator.record import LogRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.machines.call import Call
from pykbroker.machines.loader import Loader
from pykbroker.machines.log import LogLost
from pykbroker.machines.shell import MachineShell, ShellRules
from pykbroker.world.turns import Turns
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.errors import DecodeError

logger = logging.getLogger(__name__)

RELOAD_S = 1
"""The pause after a failure before the log is read again."""
RULES = ShellRules(
    discarded=ErrorCode.NOT_COORDINATOR,
    loading=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    busy=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    survives_bugs=False,
)


class CoordinatorPartition:
    """A partition that this broker leads, with its state machine. `run` loads and runs the state machine.

    `replaying` is a lock shared by all partitions, held during a replay or a tick. `commit_s_max` is the time in which
    records must be committed, unless the state machine names another.
    """

    def __init__(
        self,
        name: str,
        log: CoordinatorLog,
        new_machine: Callable[[], CoordinatorMachine],
        wall_ms: Callable[[], int],
        turns: Turns,
        replaying: trio.Lock,
        commit_s_max: float,
    ) -> None:
        self._name, self._log, self._new_machine = name, log, new_machine
        self._loader = Loader(log, replaying)
        self._shell: MachineShell[LogRecord] = MachineShell(
            log, RULES._replace(commit_s_max=commit_s_max), wall_ms, turns, replaying
        )
        self._early = EarlyRequests(commit_s_max)
        # An empty log needs no load, so that the first requests in a new cluster do not wait for one.
        if log.log_start_offset == log.log_end_offset:
            self._shell.begin(new_machine(), log.log_end_offset)

    @property
    def leader_epoch(self) -> int:
        """Return the epoch in which this broker leads the partition."""
        return self._log.leader_epoch

    def ask(self, request: Any, verification: Verification | None = None) -> Call:
        """Pass a request to the state machine.

        Raise ApiError if it is loading, or if another broker leads the partition.
        """
        return self._shell.ask(request, verification)

    def answer(self, request: Any) -> Response | Coroutine[Any, Any, Response]:
        """Return the response to a request, or a coroutine that waits for it.

        While the state machine is loading, the request waits for at most `commit_s_max`. Raise ApiError as `ask` does.
        """
        if self._shell.has_machine or self._log.closed:
            return self._shell.ask(request).answer()
        return self._early.response(self._early.keep(request))

    def notify(self, notice: Any) -> None:
        """Pass on a notice that has no reply. It is dropped while no state machine is loaded."""
        self._shell.notify(notice)

    async def run(self) -> None:
        """Load the state machine and run it, and load it again after each failure, until cancelled."""
        try:
            while True:
                if not self._shell.has_machine:
                    await self._load()
                if self._shell.has_machine:
                    await self._shell.run()
                    self._log_failure()
                await trio.sleep(RELOAD_S)
        finally:
            self._log.closed = True
            self._shell.discard()
            self._early.refuse(not_coordinator())

    async def _load(self) -> None:
        """Replay the log. If the log cannot be read, log the reason and leave the partition without a state machine."""
        machine = self._new_machine()
        try:
            offset = await self._loader.load(machine, self._log.log_start_offset)
        except (ApiError, DecodeError) as error:
            if self._log.is_leader:
                logger.error("%s: loading failed and is tried again: %s", self._name, error)
        except Exception:
            logger.exception("%s: loading failed and is tried again", self._name)
        else:
            self._shell.begin(machine, offset)
            # No new request can come before this line, so that requests keep their order.
            self._early.pass_on(self._shell.ask)

    def _log_failure(self) -> None:
        failure = self._shell.failure
        if not isinstance(failure, LogLost):
            logger.error("%s: the coordinator failed; reloading from the log", self._name, exc_info=failure)
        elif self._log.is_leader:  # otherwise the reason was logged when the leadership ended
            logger.error("%s: the coordinator lost its log; reloading from the log: %s", self._name, failure)
