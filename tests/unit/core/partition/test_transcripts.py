"""Transcripts of one partition leader in `*.txt` beside this file.

A line that begins with ">" is an event or a question; the lines after it are the resulting state or the answer. Each
file tells of one partition from its creation on. "leo" is the log end offset, "durable" the offset below which all
records are durable, "hw" the high watermark and "lso" the last stable offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.log.transactions import OpenTransactions
from pykbroker.core.partition.leadership import Leadership

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


class TranscriptRunner:
    """An interpreter of transcripts, which has a partition and its leader. Each method runs one command."""

    def __init__(self) -> None:
        self.leadership, self.transactions = Leadership(), OpenTransactions()
        self.end_offset = self.durable_offset = 0

    def perform(self, line: str) -> list[str]:
        command, *words = line.split()
        method: Callable[..., Iterator[str]] = getattr(self, command)
        try:
            return list(method(*words))
        except ApiError as error:
            return [error.code.name]

    def configure(self, *words: str) -> Iterator[str]:
        """Run `configure [min_isr=N] [flush_messages=N] [flush_before_ack]`."""
        values = dict(word.partition("=")[::2] for word in words)
        flush_messages = int(values.get("flush_messages", 1 << 62))
        self.leadership.configure(
            int(values.get("min_isr", 1)), flush_messages, flush_before_ack="flush_before_ack" in values
        )
        yield from self._state()

    def lead(self, epoch: str, replicas: str = "replicas=1", isr: str = "isr=1") -> Iterator[str]:
        """Run `lead epoch [replicas=N isr=N]`: become the leader."""
        self.leadership.lead(int(epoch), *(int(word.partition("=")[2]) for word in (replicas, isr)))
        yield from self._state()

    def resign(self, epoch: str) -> Iterator[str]:
        """Run `resign epoch`: stop being the leader."""
        self.leadership.resign(int(epoch))
        yield f"epoch {self.leadership.epoch}, not the leader"

    def fetch(self, epoch: str) -> Iterator[str]:
        """Run `fetch epoch`: the last readable offset by isolation level, for a client with this leader epoch."""
        self.leadership.require_leader(int(epoch))
        stable = self.transactions.last_stable_offset(self.leadership.high_watermark)
        uncommitted, committed = (self.leadership.upper_offset(stable, committed_only=only) for only in (False, True))
        yield f"read_uncommitted below {uncommitted}, read_committed below {committed}"

    def append(self, count: str, acks: str, producer: str = "") -> Iterator[str]:
        """Run `append count acks=1|all [transaction=producer id]`: whether the batch is acknowledged at once."""
        self.leadership.require_leader()
        if acks == "acks=all":
            self.leadership.require_min_isr()
        if producer:
            self.transactions.begin(int(producer.partition("=")[2]), self.end_offset)
        self.end_offset += int(count)
        self.leadership.advance(self.end_offset, self.durable_offset)
        if self.leadership.flush_due(self.end_offset, self.durable_offset):
            yield "waits for a flush"
        if acks == "acks=all" and not self.leadership.is_committed(self.end_offset):
            yield f"waits for hw {self.end_offset}"
        yield from self._state()

    def commit(self, producer: str) -> Iterator[str]:
        """Run `commit producer-id`: append a transaction marker."""
        self.transactions.decide(int(producer), self.end_offset, aborted=False)
        yield from self.append("1", "acks=1")

    def flush(self) -> Iterator[str]:
        """Run `flush`: make all records durable."""
        self.durable_offset = self.end_offset
        self.leadership.advance(self.end_offset, self.durable_offset)
        yield from self._state()

    def acknowledge(self, end_offset: str) -> Iterator[str]:
        """Run `acknowledge end-offset`: whether a produce with acks=all that ends there is answered now."""
        yield "yes" if self.leadership.is_committed(int(end_offset)) else "not yet"

    def _state(self) -> Iterator[str]:
        hw = self.leadership.high_watermark
        lso = self.transactions.last_stable_offset(hw)
        yield f"leo {self.end_offset} durable {self.durable_offset} hw {hw} lso {lso}"


def performed(text: str) -> str:
    stage, lines = TranscriptRunner(), []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *stage.perform(line[2:])]
        elif line.startswith("#") or not line:
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_each_transcript_matches_the_leader(path: Path) -> None:
    assert performed(path.read_text()) == path.read_text()
