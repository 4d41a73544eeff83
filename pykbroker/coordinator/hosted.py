"""The machine of one partition: loaded from the log, asked, and discarded when the log cannot be written."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from math import inf
from typing import Any

import trio

from pykbroker.coordinator.batches import Batches, opened
from pykbroker.coordinator.call import Call, not_coordinator
from pykbroker.coordinator.journal import CoordinatorJournal
from pykbroker.coordinator.machine import CoordinatorMachine, CoordinatorOutcome
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.log.verification import Verification
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry, Outcome
from pykbroker.core.steps import Steps, finish
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.turns import Turns, Unfinished
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.records.batch import Batch, batches
from wire.stored.framing import RecordRun

logger = logging.getLogger(__name__)

LOAD_BYTES = 256 << 10
"""Bytes that one read of the log returns while a machine loads."""
LOAD_RECORDS_MAX = 200
"""Records that are replayed, in 1 ms, before other tasks run. Records in runs are not counted."""
RUN_RECORDS = 8
"""Records in a run that take at least the time of one record outside of a run."""
RELOAD_S = 1
"""The pause after a failure before the log is read again."""
LOST = frozenset((ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER))
"""Errors after which the contents of the log are unknown, or another broker leads the partition."""
CALLS_MAX = 100_000
"""Callers of one partition that may be parked or wait for a commit."""


class Hosted:
    """The shell of one machine. `run` loads and serves the machine; `ask` refuses callers while the log is being read.

    Requests, notices and ticks are decided, written and replayed one after the other. Work that fits in one time slice
    is done before `ask` returns. Longer work continues in further slices, and later requests queue behind it.
    """

    def __init__(
        self,
        name: str,
        journal: CoordinatorJournal,
        new_machine: Callable[[], CoordinatorMachine],
        framing: Batches,
        wall_ms: Callable[[], int],
        off_loop: OffLoop,
        replaying: trio.Lock,
        turns: Turns,
    ) -> None:
        self._name, self._journal, self._new_machine = name, journal, new_machine
        self._framing, self._wall_ms, self._off_loop, self._replaying = framing, wall_ms, off_loop, replaying
        self._turns = turns
        self.leader_epoch = journal.leader_epoch
        self._machine: CoordinatorMachine | None = None
        self._calls: dict[Call, None] = {}
        self._uncommitted: deque[tuple[int, Call, Any]] = deque()  # offset that must be committed, caller, response
        self._replayed = 0  # all below this offset was
        self._steps = 0  # of the replay, since others had their turn
        self._under_way: deque[Steps[None]] = deque()  # one after the other
        self._due, self._work, self._sooner, self._failed, self._rested = (trio.Event() for _ in range(5))
        self._alarm_ms = inf
        self._ended = False
        if journal.log_start_offset == journal.log_end_offset:
            self._begin(new_machine(), journal.log_end_offset)

    # ---- asking

    def ask(self, request: Any, verification: Verification | None = None) -> Call:
        """Ask the machine; the call may be settled already. ApiError: no machine. `verification`: see `append_own`."""
        machine = self._require_machine()
        if len(self._calls) >= CALLS_MAX:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        call = Call()
        self._do(self._asked(machine, request, call, verification))
        if not call.settled:
            self._calls[call] = None
        self._wake_earlier()
        return call

    def notify(self, notice: Any) -> None:
        """Pass on a notice that has no reply. It is dropped while there is no machine."""
        if self._machine is not None:
            self._do(self._handled(self._machine, notice))
            self._wake_earlier()

    def _do(self, steps: Steps[None]) -> None:
        """Run the steps for one time slice. Queue them if other work is under way or if they need longer."""
        if self._under_way or self._turns.begin(steps) is Unfinished.UNFINISHED:
            if not self._under_way:
                self._rested = trio.Event()
            self._under_way.append(steps)
            self._work.set()

    def _asked(
        self, machine: CoordinatorMachine, request: Any, call: Call, verification: Verification | None
    ) -> Steps[None]:
        try:
            yield from self._handled(machine, request, call, verification)
        except ApiError as error:
            self._tell(call, error)
        except Exception:
            self._unload()  # what a bug has left of its state is nothing to go on from
            raise

    def _handled(
        self,
        machine: CoordinatorMachine,
        request: Any,
        call: Call | None = None,
        verification: Verification | None = None,
    ) -> Steps[None]:
        now = self._now()
        decided = machine.handle(request, call, now)
        outcome = decided if isinstance(decided, Outcome) else (yield from decided)
        yield from self._carry_out(machine, outcome, now.wall_ms, call, verification)

    def _now(self) -> Now:
        return Now(trio.current_time() * 1000, self._wall_ms())

    def _require_machine(self) -> CoordinatorMachine:
        if self._ended or not self._journal.is_leader or self._journal.leader_epoch != self.leader_epoch:
            raise not_coordinator()
        if self._machine is None:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._machine

    def _carry_out(
        self,
        machine: CoordinatorMachine,
        outcome: CoordinatorOutcome,
        wall_ms: int,
        asked: Call | None = None,
        verification: Verification | None = None,
    ) -> Steps[None]:
        """Append and replay the records, then reply once all replayed records are committed.

        If the log refuses the records, nothing has changed, and every caller of the outcome receives the error.
        """
        if outcome.records:
            try:
                yield from self._write(machine, outcome, wall_ms, verification)
            except ApiError as refused:
                for call in {**dict.fromkeys(token for token, _ in outcome.replies), asked: None}:
                    if isinstance(call, Call):
                        self._tell(call, refused)
                return
        for token, response in outcome.replies:
            if isinstance(token, Call):
                self._tell(token, response)

    def _write(
        self, machine: CoordinatorMachine, outcome: CoordinatorOutcome, wall_ms: int, verification: Verification | None
    ) -> Steps[None]:
        """Append all records at once, then replay them. A caller that stops halfway must unload the machine."""
        bytes_max = self._journal.batch_bytes_max
        written = yield from self._framing.write(outcome.records, wall_ms, bytes_max, split=not outcome.replies)
        for batch, _ in written:
            if isinstance(batch, bytes) and len(batch) > bytes_max:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"records of one request exceed {bytes_max} bytes")
        if machine is not self._machine or self._journal.leader_epoch != self.leader_epoch:
            raise not_coordinator()
        ends = [
            self._append(batch, wall_ms, verification, is_first=not place) for place, (batch, _) in enumerate(written)
        ]
        for end, (_, held) in zip(ends, written, strict=True):
            for offset, record in enumerate(held, end - len(held)):
                machine.replay(Entry(offset, record, record.producer_id, record.producer_epoch))
                yield
            self._replayed = end

    def _append(self, batch: bytes | Marker, wall_ms: int, verification: Verification | None, *, is_first: bool) -> int:
        """Return the offset after the batch. ApiError: the log refuses the batch.

        The machine is unloaded if the error is one of `LOST`, or if an earlier batch of the same outcome was appended.
        """
        try:
            return self._journal.append_own(batch, wall_ms, verification)
        except ApiError as error:
            if error.code not in LOST and is_first:
                raise
            self._give_up(error)
            raise not_coordinator() from error

    def _tell(self, call: Call, response: Any) -> None:
        """Settle the call now if all replayed records are committed; otherwise once they are."""
        journal = self._journal
        if self._machine is not None and (
            self._uncommitted or journal.high_watermark < self._replayed or journal.flush_due
        ):
            self._uncommitted.append((self._replayed, call, response))
            self._due.set()
        else:
            self._settle(call, response)

    def _settle(self, call: Call, response: Any) -> None:
        self._calls.pop(call, None)
        call.settle(response)

    def _wake_earlier(self) -> None:
        if self._machine is not None and self._machine.deadline_ms < self._alarm_ms:
            self._sooner.set()

    # ---- the life of a machine

    async def run(self) -> None:
        """Load the machine and serve it, and load it again after each failure, until cancelled."""
        try:
            while True:
                if self._machine is None:
                    await self._load()
                if self._machine is not None:
                    await self._serve(self._machine)
                await trio.sleep(RELOAD_S)
        finally:
            self._ended = True
            self._unload()

    async def _serve(self, machine: CoordinatorMachine) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tick, machine)
            nursery.start_soon(self._work_off)
            nursery.start_soon(self._commit)
            await self._failed.wait()
            nursery.cancel_scope.cancel()

    def _give_up(self, error: ApiError) -> None:
        """Unload the machine: the contents of the log, or its leader, are unknown."""
        if self._journal.is_leader:  # else who took it away has said why
            logger.error("%s is given up and loaded again: %s", self._name, error)
        self._unload()

    def _unload(self) -> None:
        """Discard the machine and send every caller NOT_COORDINATOR."""
        self._machine = None
        self._under_way.clear()
        self._failed.set()
        self._uncommitted.clear()
        calls, self._calls = self._calls, {}
        for call in calls:
            call.settle(not_coordinator())

    def _begin(self, machine: CoordinatorMachine, replayed: int) -> None:
        """Accept requests: the whole log has been replayed."""
        self._machine, self._replayed = machine, replayed
        self._due, self._work, self._sooner, self._failed = (trio.Event() for _ in range(4))
        self._alarm_ms = inf
        now = self._now()
        finish(self._carry_out(machine, machine.loaded(now), now.wall_ms))
        self._wake_earlier()

    async def _load(self) -> None:
        """Replay the log. If it cannot be read, log the reason and leave the partition without a machine."""
        machine = self._new_machine()
        try:
            offset = self._journal.log_start_offset
            while offset < self._journal.log_end_offset:
                offset = await self._replay_some(machine, offset)
        except (ApiError, DecodeError) as error:
            if self._journal.is_leader:
                logger.error("%s cannot be loaded: %s", self._name, error)
        except Exception:
            logger.exception("%s cannot be loaded", self._name)
        else:
            self._begin(machine, offset)

    async def _replay_some(self, machine: CoordinatorMachine, offset: int) -> int:
        """Replay one read in small steps and return the offset after it. Only one machine of all replays at a time."""
        found = deque(batches(await self._journal.read_stored(offset, LOAD_BYTES)))
        async with self._replaying:
            while found:
                for data in await self._open(found):
                    if isinstance(data, DecodeError):
                        raise data
                    batch = found.popleft()
                    await self._replay_batch(machine, batch, data, offset)
                    offset = max(offset, batch.last_offset + 1)
            await trio.lowlevel.checkpoint()
        return offset

    async def _open(self, found: Collection[Batch]) -> list[bytes | DecodeError]:
        """Return the contents of the first batches, decompressed off the loop."""
        if any(batch.codec for batch in found):
            return await self._off_loop(opened, tuple(found))
        return opened(found)

    async def _replay_batch(self, machine: CoordinatorMachine, batch: Batch, data: bytes, offset: int) -> None:
        """Replay the records of a batch from `offset` on. Small batches share a step."""
        for entry in self._framing.read(batch, data, offset):
            machine.replay(entry)
            self._steps += 1 + (entry.value.count // RUN_RECORDS if isinstance(entry.value, RecordRun) else 0)
            if self._steps >= LOAD_RECORDS_MAX:
                self._steps = 0
                await trio.lowlevel.checkpoint()

    async def _tick(self, machine: CoordinatorMachine) -> None:
        """Call the machine's `tick` at each deadline, one after the other."""
        while True:
            while self._under_way:
                await self._rested.wait()
            self._sooner = trio.Event()
            self._alarm_ms = alarm_ms = machine.deadline_ms
            with trio.move_on_at(alarm_ms / 1000) as scope:
                await self._sooner.wait()
            if scope.cancelled_caught:
                async with self._replaying:  # one machine of all at a time, as each may take a whole share of the loop
                    self._tick_once(machine, alarm_ms)

    def _tick_once(self, machine: CoordinatorMachine, alarm_ms: float) -> None:
        if machine is not self._machine:
            return  # it was unloaded while others had their turn
        try:
            self._do(self._ticked(machine, alarm_ms))
        except Exception:
            logger.exception("%s is given up and loaded again", self._name)
            self._unload()

    def _ticked(self, machine: CoordinatorMachine, alarm_ms: float) -> Steps[None]:
        now = Now(max(trio.current_time() * 1000, alarm_ms), self._wall_ms())
        yield from self._carry_out(machine, machine.tick(now), now.wall_ms)

    async def _work_off(self) -> None:
        """Finish work that needs more than one time slice, and the work that is queued behind it."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._under_way:
                try:
                    await self._turns.walk(self._under_way[0])
                except Exception:
                    logger.exception("%s is given up and loaded again", self._name)
                    self._unload()
                if self._under_way:  # none is left after an unload
                    self._under_way.popleft()
            self._rested.set()
            self._wake_earlier()

    async def _commit(self) -> None:
        """Reply to callers whose records are committed. One flush and one wait serve all waiting callers."""
        while True:
            await self._due.wait()
            self._due = trio.Event()
            try:
                while self._uncommitted:
                    replayed, (first, _, _) = self._replayed, self._uncommitted[0]  # none is left after an unload
                    if self._journal.flush_due:
                        await self._journal.flush()
                    await self._journal.wait_committed(first)
                    committed = min(replayed, self._journal.high_watermark)
                    while self._uncommitted and self._uncommitted[0][0] <= committed:
                        _, call, response = self._uncommitted.popleft()
                        self._settle(call, response)
            except ApiError as error:
                self._give_up(error)
