"""The shell of one state machine: for each request it decides, appends records, replays them and replies."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.core.now import Now
from pykbroker.core.outcome import Machine, Outcome
from pykbroker.core.steps import Steps, finish
from pykbroker.machines.alarm import Alarm
from pykbroker.machines.call import Call
from pykbroker.machines.log import LogLost, MachineLog
from pykbroker.machines.replies import Replies
from pykbroker.machines.work import Work
from pykbroker.world.turns import Turns
from wire.error_codes import ErrorCode

Rec = TypeVar("Rec")
T = TypeVar("T")

CALLS_MAX = 100_000
"""The number of callers of one state machine that may wait for a reply at a time."""


class ShellRules(NamedTuple):
    """The error codes for callers of a state machine that is discarded, still loading, or has too many callers.

    A caller whose own request raises an exception receives that exception; all other callers receive `discarded`.
    `survives_bugs` is true if an exception raised by `handle` leaves the state unchanged: the state machine then
    continues. `commits_alone` is true if records must be committed although no caller waits for them. A
    caller whose records are not committed within `commit_s_max`, or within the time of their outcome, receives `busy`.
    """

    discarded: ErrorCode
    loading: ErrorCode
    busy: ErrorCode
    survives_bugs: bool
    commits_alone: bool = False
    commit_s_max: float = inf


class MachineShell(Generic[Rec]):
    """The shell of one state machine, from `begin` to `discard`. `run` must run meanwhile: it does all long work.

    `ticking` is held during a tick: machines that share the lock tick one after the other, since one tick may take a
    whole time slice of the event loop. `failure` is the reason of the last `discard`.
    """

    def __init__(
        self, log: MachineLog[Rec], rules: ShellRules, wall_ms: Callable[[], int], turns: Turns, ticking: trio.Lock
    ) -> None:
        self._log, self._rules, self._wall_ms = log, rules, wall_ms
        self._turns, self._ticking = turns, ticking
        self._machine: Machine[Any, Rec, Any, Any] | None = None
        self._calls: dict[Call, None] = {}
        self._replayed = 0  # all records below this offset were replayed
        self._work = Work(turns, self.discard)
        self._replies = self._new_replies()
        self._alarm, self._discarded = Alarm(), trio.Event()
        self.failure: Exception | None = None

    @property
    def has_machine(self) -> bool:
        """Whether a state machine is loaded and requests are accepted."""
        return self._machine is not None

    @property
    def uncommitted(self) -> int:
        """Return the number of replies that wait for a commit."""
        return len(self._replies)

    # ---- requests

    def ask(self, request: Any, verification: Verification | None = None) -> Call:
        """Pass a request to the state machine. The returned call may already be settled.

        Raise ApiError if no state machine is loaded, or if it has too many callers. `verification` allows the records
        to begin a transaction in the log (KIP-890).
        """
        machine = self._require_machine()
        if len(self._calls) >= CALLS_MAX:
            raise ApiError(self._rules.busy)
        call = Call()
        # Most requests are done within this line, so that they cost no task and no event.
        self._work.do(self._handle_request(machine, request, call, verification))
        if not call.settled:
            self._calls[call] = None
        self._note_deadline()
        return call

    def notify(self, notice: Any) -> None:
        """Pass on a notice that has no reply. It is dropped while no state machine is loaded."""
        if self._machine is not None:
            self._work.do(self._handle_notice(self._machine, notice))
            self._note_deadline()

    async def between(self, function: Callable[[], T]) -> T:
        """Run a function between two requests and return its result.

        Raise LogLost if the state machine is discarded first.
        """
        call = Call()
        self._work.do(_one_step(function, call))
        if not call.settled:
            self._calls[call] = None
        await call.wait_settled()
        self._calls.pop(call, None)
        try:
            result: T = call.result()
        except ApiError as error:
            raise LogLost("the machine was given up") from error
        return result

    def abandon(self, call: Call) -> None:
        """Forget a caller that no longer waits. Its request is dropped if it is still queued."""
        self._settle(call, ApiError(self._rules.discarded))

    def _handle_request(
        self, machine: Machine[Any, Rec, Any, Any], request: Any, call: Call, verification: Verification | None
    ) -> Steps[None]:
        if call.settled:
            return  # its caller no longer waits
        now = self._now()
        try:
            decided = machine.handle(request, call, now)
            outcome = decided if isinstance(decided, Outcome) else (yield from decided)
        except ApiError as error:
            self._reply(call, error)
            return
        except Exception as error:  # noqa: BLE001 - the caller raises it
            self._fail(call, error)
            if not self._rules.survives_bugs:
                self.discard(error)  # a bug may have left its state inconsistent
            return
        try:
            yield from self._carry_out(machine, outcome, now.wall_ms, call, verification)
        except Exception as error:  # noqa: BLE001 - the caller raises it
            # Records may have been appended and not replayed, so that the state is no longer that of the log.
            self._fail(call, error)
            self.discard(error)

    def _handle_notice(self, machine: Machine[Any, Rec, Any, Any], notice: Any) -> Steps[None]:
        now = self._now()
        decided = machine.handle(notice, None, now)
        outcome = decided if isinstance(decided, Outcome) else (yield from decided)
        yield from self._carry_out(machine, outcome, now.wall_ms)

    def _new_replies(self) -> Replies:
        return Replies(self._log, self._settle, self._rules.commit_s_max, self._rules.busy)

    def _now(self) -> Now:
        return Now(trio.current_time() * 1000, self._wall_ms())

    def _require_machine(self) -> Machine[Any, Rec, Any, Any]:
        self._log.require_open()
        if self._machine is None:
            raise ApiError(self._rules.loading)
        return self._machine

    def _carry_out(
        self,
        machine: Machine[Any, Rec, Any, Any],
        outcome: Outcome[Rec, Any],
        wall_ms: int,
        caller: Call | None = None,
        verification: Verification | None = None,
    ) -> Steps[None]:
        """Append and replay the records, then reply once all replayed records are committed.

        If the log refuses the records, nothing has changed, and every caller of the outcome receives the error.
        """
        if outcome.records:
            try:
                yield from self._write(machine, outcome, wall_ms, verification)
            except ApiError as refused:
                for call in {**dict.fromkeys(token for token, _ in outcome.replies), caller: None}:
                    if isinstance(call, Call):
                        self._reply(call, refused)
                return
        commit_s_max = None if outcome.commit_ms_max is None else outcome.commit_ms_max / 1000
        for token, response in outcome.replies:
            if isinstance(token, Call):
                self._reply(token, response, commit_s_max)
        # The records of a tick have no caller, and the controller's log commits records for the sake of a reply.
        if outcome.records and not outcome.replies and self._rules.commits_alone:
            self._reply(Call(), None)

    def _write(
        self,
        machine: Machine[Any, Rec, Any, Any],
        outcome: Outcome[Rec, Any],
        wall_ms: int,
        verification: Verification | None,
    ) -> Steps[None]:
        """Append all records, then replay them. A caller that stops halfway must discard the state machine."""
        framed = yield from self._log.frame(outcome.records, wall_ms, split=not outcome.replies)
        # Other tasks ran while the records were framed: the log may be closed, and the machine another one.
        self._log.require_open()
        if machine is not self._machine:
            raise ApiError(self._rules.discarded)
        try:
            ends = [
                self._log.append(batch, wall_ms, verification, is_first=not place)
                for place, (batch, _) in enumerate(framed)
            ]
        except LogLost as error:
            self.discard(error)
            raise ApiError(self._rules.discarded) from error
        for end, (_, records) in zip(ends, framed, strict=True):
            for entry in self._log.entries(records, end):
                machine.replay(entry)
                yield
            self._replayed = end

    def _reply(self, call: Call, response: Any, commit_s_max: float | None = None) -> None:
        if self._machine is None:
            self._settle(call, response)
        else:
            self._replies.add(call, response, self._replayed, commit_s_max)

    def _settle(self, call: Call, response: Any) -> None:
        self._calls.pop(call, None)
        call.settle(response)

    def _fail(self, call: Call, error: Exception) -> None:
        self._calls.pop(call, None)
        call.fail(error)

    def _note_deadline(self) -> None:
        if self._machine is not None:
            self._alarm.note_deadline(self._machine.deadline_ms)

    # ---- start, run and stop

    def begin(self, machine: Machine[Any, Rec, Any, Any], replayed: int) -> None:
        """Accept requests for a state machine that has replayed the whole log, up to the offset `replayed`."""
        self._machine, self._replayed = machine, replayed
        self._work, self._replies = Work(self._turns, self.discard), self._new_replies()
        self._alarm, self._discarded, self.failure = Alarm(), trio.Event(), None
        now = self._now()
        finish(self._carry_out(machine, machine.loaded(now), now.wall_ms))
        self._note_deadline()

    async def run(self) -> None:
        """Run the state machine's long work, ticks and commits until it is discarded."""
        machine = self._machine
        assert machine is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._alarm.run, lambda: machine.deadline_ms, self._work.wait_idle, self._tick)
            nursery.start_soon(self._work_on)
            nursery.start_soon(self._commit)
            nursery.start_soon(self._replies.expire)
            await self._discarded.wait()
            nursery.cancel_scope.cancel()

    def discard(self, error: Exception | None = None) -> None:
        """Discard the state machine and refuse every caller."""
        self._machine, self.failure = None, error
        self._work.clear()
        self._replies.clear()
        self._discarded.set()
        calls, self._calls = self._calls, {}
        for call in calls:
            call.settle(ApiError(self._rules.discarded))

    async def _tick(self, alarm_ms: float) -> None:
        async with self._ticking:
            if self._machine is None:
                return  # it was discarded while this tick waited for the lock
            try:
                self._work.do(self._handle_tick(self._machine, alarm_ms))
            except Exception as error:  # noqa: BLE001 - the owner of the shell logs it
                self.discard(error)

    def _handle_tick(self, machine: Machine[Any, Rec, Any, Any], alarm_ms: float) -> Steps[None]:
        # Rounding may put a deadline just after the time at which trio wakes, and the tick would find nothing due.
        now = Now(max(trio.current_time() * 1000, alarm_ms), self._wall_ms())
        yield from self._carry_out(machine, machine.tick(now), now.wall_ms)

    async def _work_on(self) -> None:
        """Continue work that takes more than a time slice, and look at the deadline again after it."""
        await self._work.run(self._note_deadline)

    async def _commit(self) -> None:
        try:
            await self._replies.run(lambda: self._replayed, self.between)
        except LogLost as error:
            self.discard(error)


def _one_step(function: Callable[[], Any], call: Call) -> Steps[None]:
    yield
    call.settle(function())
