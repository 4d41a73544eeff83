"""Transcripts of one partition leader, broker 1, in `*.txt` beside this file.

A line that begins with ">" is an event or a question; the lines after it are the resulting state or the answer. Each
file tells of one partition from its creation on. "leo" is the log end offset, "durable" the offset below which all
records are durable, "hw" the high watermark and "lso" the last stable offset. If the partition has followers, "isr" is
the committed ISR with its partition epoch, and "proposes" the pending change. The lag limit is 30 s. Brokers 1 to 4 are
active, each with ten times its id as broker epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.log.transactions import OpenTransactions
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.follower_state import UNKNOWN_BROKER_EPOCH
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.core.replication.leadership import Leadership
from wire.error_codes import ErrorCode

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
ME = 1
LAG_MS_MAX = 30_000


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 1,2,3."""
    return tuple(map(int, text.split(",")))


class TranscriptRunner:
    """An interpreter of transcripts, which has a partition and its leader. Each method runs one command."""

    def __init__(self) -> None:
        self.leadership, self.transactions = Leadership(), OpenTransactions()
        self.end_offset = self.durable_offset = 0
        self.now_ms = 100_000.0
        self.active = {broker_id: 10 * broker_id for broker_id in (1, 2, 3, 4)}
        self.proposed: IsrChange | None = None

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
        self._advance()
        yield from self._state()

    def lead(self, epoch: str, *words: str) -> Iterator[str]:
        """Run `lead epoch [replicas=1,2,3 isr=1,2,3 partition_epoch=N]`: metadata that names broker 1 as leader."""
        values = dict(word.partition("=")[::2] for word in words)
        replicas, isr = (numbers(values.get(name, "1")) for name in ("replicas", "isr"))
        placed = PartitionImage(replicas, isr, ME, int(epoch), int(values.get("partition_epoch", 0)))
        self.leadership.lead(ME, placed, self.end_offset, self.now_ms)
        self._advance()
        yield from self._state()

    def start(self, *words: str) -> Iterator[str]:
        """Run `start leo=N hw=N`: a broker starts with this log and this checkpointed high watermark."""
        values = dict(word.partition("=")[::2] for word in words)
        self.end_offset = self.durable_offset = int(values["leo"])
        self.leadership = Leadership(int(values["hw"]))
        yield from self._state()

    def fetched(self, broker_id: str, offset: str, epoch: str = "") -> Iterator[str]:
        """Run `fetched broker-id offset [epoch=N|epoch=unknown]`: a follower fetches, and may be added to the ISR."""
        followers, follower = self.leadership.followers, int(broker_id)
        broker_epoch = {"": 10 * follower, "unknown": UNKNOWN_BROKER_EPOCH}.get(epoch.partition("=")[2])
        known = int(epoch.partition("=")[2]) if broker_epoch is None else broker_epoch
        followers.get(follower).note_fetch(int(offset), 0, self.end_offset, known, self.now_ms)
        self._advance()
        self.proposed = followers.grown(follower, self.leadership.high_watermark, self.active, 10) or self.proposed
        yield from self._state()

    def wait(self, seconds: str) -> Iterator[str]:
        """Run `wait seconds`: time passes, then the leader looks for followers that fell behind."""
        self.now_ms += 1000 * float(seconds)
        self._advance()
        followers = self.leadership.followers
        self.proposed = followers.shrunk(self.end_offset, self.now_ms, LAG_MS_MAX, 10) or self.proposed
        yield from self._state()

    def fence(self, broker_id: str) -> Iterator[str]:
        """Run `fence broker-id`: the broker is no longer active."""
        del self.active[int(broker_id)]
        self._advance()
        yield from self._state()

    def answer(self, *words: str) -> Iterator[str]:
        """Run `answer error` or `answer epoch=N partition_epoch=N isr=1,2`: the controller answers the last change."""
        if "=" in words[0]:
            values = dict(word.partition("=")[::2] for word in words)
            answer = IsrAnswer(
                ErrorCode.NONE, int(values["epoch"]), int(values["partition_epoch"]), numbers(values["isr"])
            )
        else:
            answer = IsrAnswer(ErrorCode[words[0]])
        assert self.proposed is not None
        if self.leadership.followers.settle(self.proposed, answer):
            yield "sends the same change again"
        self.leadership.note_isr()
        self._advance()
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
        self._advance()
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
        self._advance()
        yield from self._state()

    def acknowledge(self, end_offset: str) -> Iterator[str]:
        """Run `acknowledge end-offset`: whether a produce with acks=all that ends there is answered now."""
        yield "yes" if self.leadership.is_committed(int(end_offset)) else "not yet"

    def _advance(self) -> None:
        self.leadership.refresh(self.end_offset, self.active, self.now_ms, LAG_MS_MAX)
        self.leadership.advance(self.end_offset, self.durable_offset)

    def _state(self) -> Iterator[str]:
        hw = self.leadership.high_watermark
        lso = self.transactions.last_stable_offset(hw)
        yield f"leo {self.end_offset} durable {self.durable_offset} hw {hw} lso {lso}"
        followers = self.leadership.followers
        if followers is not None:
            pending = followers.pending
            proposal = (
                "" if pending is None else " proposes " + " ".join(f"{each}@{epoch}" for each, epoch in pending.isr)
            )
            yield f"isr {','.join(map(str, followers.isr))} of partition epoch {followers.partition_epoch}{proposal}"


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
