"""Transcripts of a transactional producer in `*.txt` beside this file.

A line that begins with ">" is a call of the application or an event; the lines after it are the requests, results and
the resulting state with producer id and epoch. This broker's coordinator answers, unless an error code is given.
Each file tells of one producer from its creation on. `version` creates another producer and another cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.errors import IllegalCall, ProducerClosed
from pykbroker.core.producer.transactions.calls import VERSION_1_MAX, VERSION_MAX, EndTxnCall
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.settings import TransactionSettings
from tests.unit.core.producer.transactions.transactional_setup import (
    TIMEOUT_MS,
    CopierMember,
    InputOffset,
    TransactionalSetup,
    refusal,
)
from tests.unit.core.txn.harness import at_epoch
from wire.error_codes import ErrorCode

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


class TranscriptRunner:
    """An interpreter of transcripts, which has a producer and its coordinator. Each method runs one command."""

    def __init__(self) -> None:
        self.setup = TransactionalSetup()
        self.results: list[CallResult] = []
        self.batches: list[ProducerBatch] = []

    def perform(self, line: str) -> list[str]:
        command, *words = line.split()
        before = self.state
        try:
            lines = list(getattr(self, command)(*words))
        except (ApiError, IllegalCall) as error:
            lines = [f"{type(error).__name__}: {error}"]
        lines += [each for result in list(self.results) for each in self._result(result)]
        lines += [each for batch in list(self.batches) for each in self._batch(batch)]
        return lines + ([self.state] if self.state != before else [])

    @property
    def state(self) -> str:
        manager = self.setup.manager
        producer_id, epoch = manager.sequences.identity
        return f"{manager.state.name}, producer {producer_id} epoch {epoch}"

    def _result(self, result: CallResult) -> Iterator[str]:
        if result.is_done:
            self.results.remove(result)
            yield f"{result.call.value}: " + ("done" if result.error is None else type(result.error).__name__)

    def _batch(self, batch: ProducerBatch) -> Iterator[str]:
        if batch.outcome is not None:
            self.batches.remove(batch)
            error = batch.outcome.error
            outcome = f"offset {batch.outcome.base_offset}" if error is None else type(error).__name__
            yield f"record of {batch.partition}: {outcome}"

    # ---- the application

    def version(self, level: str) -> Iterator[str]:
        """Run `version level`: create a producer and a cluster with this transaction version."""
        self.setup = TransactionalSetup(int(level))
        yield from ()

    def epoch(self, epoch: str) -> Iterator[str]:
        """Run `epoch epoch`: let an earlier producer have used the transactional id up to this epoch."""
        harness = self.setup.coordinator.harness
        harness.load(at_epoch(int(epoch)))
        harness.ids.next = 101
        yield from ()

    def upgrade(self) -> Iterator[str]:
        """Run `upgrade`: finalize transaction version 2."""
        harness = self.setup.coordinator.harness
        harness.settings = TransactionSettings(lambda: 2)
        harness.load()
        self.setup.manager.update_features(2, {"transaction.version": 2})
        yield from ()

    def close(self) -> Iterator[str]:
        """Run `close`: close the producer without a wait."""
        self.setup.manager.close(ProducerClosed("the producer was closed"))
        yield from ()

    def init(self) -> Iterator[str]:
        """Run `init`: call init_transactions."""
        yield from self._call(self.setup.manager.init())

    def begin(self) -> Iterator[str]:
        """Run `begin`: call begin_transaction."""
        self.setup.manager.begin()
        yield from ()

    def send(self, topic: str) -> Iterator[str]:
        """Run `send topic`: append a record that fills a batch."""
        self.batches.append(self.setup.append(TopicPartition(topic, 0), b"x" * 90))
        yield from ()

    def offsets(self) -> Iterator[str]:
        """Run `offsets`: call send_offsets_to_transaction."""
        offsets = {TopicPartition("input", 0): InputOffset(7)}
        yield from self._call(self.setup.manager.send_offsets(offsets, CopierMember()))

    def commit(self) -> Iterator[str]:
        """Run `commit`: call commit_transaction."""
        yield from self._call(self.setup.manager.commit())

    def abort(self) -> Iterator[str]:
        """Run `abort`: call abort_transaction."""
        yield from self._call(self.setup.manager.abort())

    def acknowledge(self) -> Iterator[str]:
        """Run `acknowledge`: return the result of the pending call to the application."""
        pending = self.setup.manager._status.pending
        assert pending is not None
        pending.acknowledge()
        yield "ok"

    def _call(self, result: CallResult) -> Iterator[str]:
        if result not in self.results:
            self.results.append(result)
        yield from ()

    # ---- the owner and the network

    def request(self) -> Iterator[str]:
        """Run `request`: send the next request of the transaction protocol."""
        call = self.setup.next_call()
        if call is None:
            due_ms = self.setup.manager.requests.next_check_ms(has_incomplete=bool(self.setup.accumulator.incomplete))
            yield "no request" if due_ms == float("inf") else f"no request before {due_ms - self.setup.now_ms:g} ms"
            return
        newest = "" if call.version_max == VERSION_MAX else f", version {call.version_max} at most"
        identity = getattr(call, "identity", None) or getattr(call, "current", None)
        fields = "" if identity is None else f" epoch {identity.epoch}"
        if isinstance(call, EndTxnCall):
            fields += " commit" if call.commit else " abort"
        yield f"{call.api}{fields} to the {call.coordinator.name.lower()} coordinator{newest}"

    def answer(self, code: str = "") -> Iterator[str]:
        """Run `answer [code]`: answer the request in flight."""
        if self.setup.call is None:
            yield "no request in flight"
            return
        if not code:
            self.setup.handle_call()
            return
        call = self.setup.take_call()
        response = refusal(call.request(), ErrorCode[code])
        if self.setup.manager.requests.received(call, response, self.setup.now_ms):
            yield "look up the coordinator"

    def lose(self, outcome: str = "unhandled") -> Iterator[str]:
        """Run `lose [handled]`: lose the request in flight, or its answer, with the connection."""
        call = self.setup.take_call()
        if outcome == "handled":
            self.setup.coordinator.answer(call.request(), call.version_max != VERSION_1_MAX)
        self.setup.manager.requests.disconnected(call, self.setup.now_ms)
        yield from ()

    def refuse(self, code: str) -> Iterator[str]:
        """Run `refuse code`: refuse the look-up of the coordinator."""
        self.setup.manager.requests.refused(self.setup.take_call(), ApiError(ErrorCode[code]))
        yield from ()

    def produce(self) -> Iterator[str]:
        """Run `produce`: send the batches that are due."""
        found = [batch for batches in self.setup.send() for batch in batches.values()]
        newest = self.setup.manager.produce_version_max
        for batch in found:
            state = batch.state
            yield (
                f"Produce {batch.partition} epoch {state.epoch} sequence {state.base_sequence}"
                + ("" if newest is None else f", version {newest} at most")
            )
        if not found:
            yield "no batch"

    def written(self, code: str = "", log_start_offset: str = "0") -> Iterator[str]:
        """Run `written [code [log-start-offset]]`: let the leader answer the oldest Produce request."""
        if not self.setup.unhandled:
            yield "no Produce request"
            return
        self.setup.coordinator.adds = self.setup.manager.produce_version_max is None
        self.setup.handle_produce(ErrorCode[code] if code else None, int(log_start_offset))
        self.setup.answer_produce()

    def disconnect(self) -> Iterator[str]:
        """Run `disconnect`: lose the Produce requests in flight."""
        self.setup.disconnect()
        yield from ()

    def expire(self) -> Iterator[str]:
        """Run `expire`: let the delivery time-out pass."""
        self.setup.now_ms += TIMEOUT_MS
        yield from self.produce()

    def wait(self, ms: str) -> Iterator[str]:
        """Run `wait ms`: let time pass."""
        self.setup.now_ms += int(ms)
        yield from ()

    def markers(self) -> Iterator[str]:
        """Run `markers`: let the coordinator write the markers of the decided transaction."""
        self.setup.coordinator.write_markers()
        yield from ()


def performed(text: str) -> str:
    stage, lines = TranscriptRunner(), []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *stage.perform(line[2:])]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_each_transcript_matches_the_producer(path: Path) -> None:
    assert performed(path.read_text()) == path.read_text()
