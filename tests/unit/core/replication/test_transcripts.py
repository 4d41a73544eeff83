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
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.core.replication.leading import Leading
from pykbroker.core.replication.role import Role, require_leading
from pykbroker.storage.segments.config import LONG_MAX, LogConfig
from wire.error_codes import ErrorCode
from wire.sentinels import NO_BROKER_EPOCH

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
ME = 1
LAG_MS_MAX = 30_000


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list such as 1,2,3."""
    return tuple(map(int, text.split(",")))


class TranscriptRunner:
    """An interpreter of transcripts, which has a partition and its leader. Each method runs one command."""

    def __init__(self) -> None:
        self.role: Role = Following()
        self.high_watermark, self.transactions = 0, OpenTransactions()
        self.config = LogConfig()
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
        self.config = LogConfig(
            min_insync_replicas=int(values.get("min_isr", 1)),
            flush_messages=int(values.get("flush_messages", LONG_MAX)),
            flush_before_ack="flush_before_ack" in values,
        )
        self._advance()
        yield from self._state()

    def lead(self, epoch: str, *words: str) -> Iterator[str]:
        """Run `lead epoch [replicas=1,2,3 isr=1,2,3 partition_epoch=N]`: metadata that names broker 1 as leader."""
        values = dict(word.partition("=")[::2] for word in words)
        replicas, isr = (numbers(values.get(name, "1")) for name in ("replicas", "isr"))
        placed = PartitionImage(replicas, isr, ME, int(epoch), int(values.get("partition_epoch", 0)))
        if isinstance(self.role, Leading) and self.role.epoch == int(epoch):
            self.role.apply(placed)
        else:
            self.role = Leading(ME, placed, self.end_offset, self.now_ms)
        self._advance()
        yield from self._state()

    def start(self, *words: str) -> Iterator[str]:
        """Run `start leo=N hw=N`: a broker starts with this log and this checkpointed high watermark."""
        values = dict(word.partition("=")[::2] for word in words)
        self.end_offset = self.durable_offset = int(values["leo"])
        self.role, self.high_watermark = Following(), int(values["hw"])
        yield from self._state()

    def fetched(self, broker_id: str, offset: str, epoch: str = "") -> Iterator[str]:
        """Run `fetched broker-id offset [epoch=N|epoch=unknown]`: a follower fetches, and may be added to the ISR."""
        leading, follower = require_leading(self.role), int(broker_id)
        broker_epoch = {"": 10 * follower, "unknown": NO_BROKER_EPOCH}.get(epoch.partition("=")[2])
        known = int(epoch.partition("=")[2]) if broker_epoch is None else broker_epoch
        leading.followers[follower].note_fetch(int(offset), 0, self.end_offset, known, self.now_ms)
        self._advance()
        self.proposed = leading.grown(follower, self.high_watermark, self.active, 10) or self.proposed
        yield from self._state()

    def wait(self, seconds: str) -> Iterator[str]:
        """Run `wait seconds`: time passes, then the leader looks for followers that fell behind."""
        self.now_ms += 1000 * float(seconds)
        self._advance()
        self.proposed = require_leading(self.role).shrunk(self.end_offset, self.now_ms, LAG_MS_MAX, 10) or self.proposed
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
        if require_leading(self.role).settle(self.proposed, answer):
            yield "sends the same change again"
        self._advance()
        yield from self._state()

    def resign(self, epoch: str) -> Iterator[str]:
        """Run `resign epoch`: stop being the leader."""
        self.role = Following(int(epoch))
        yield f"epoch {self.role.epoch}, not the leader"

    def fetch(self, epoch: str) -> Iterator[str]:
        """Run `fetch epoch`: the last readable offset by isolation level, for a client with this leader epoch."""
        require_leading(self.role, int(epoch))
        stable = self.transactions.last_stable_offset(self.high_watermark)
        yield f"read_uncommitted below {self.high_watermark}, read_committed below {stable}"

    def append(self, count: str, acks: str, producer: str = "") -> Iterator[str]:
        """Run `append count acks=1|all [transaction=producer id]`: whether the batch is acknowledged at once."""
        leading = require_leading(self.role)
        if acks == "acks=all":
            leading.require_min_isr()
        if producer:
            self.transactions.begin(int(producer.partition("=")[2]), self.end_offset)
        self.end_offset += int(count)
        self._advance()
        if self.end_offset - self.durable_offset > self.config.unflushed_max:
            yield "waits for a flush"
        if acks == "acks=all" and not leading.is_committed(self.end_offset, self.high_watermark):
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
        leading = require_leading(self.role)
        yield "yes" if leading.is_committed(int(end_offset), self.high_watermark) else "not yet"

    def _advance(self) -> None:
        if isinstance(self.role, Leading):
            self.role.configure(self.config.min_insync_replicas, flush_before_ack=self.config.flush_before_ack)
            self.role.refresh(self.end_offset, self.active, self.now_ms, LAG_MS_MAX)
            committed = self.role.committed(self.end_offset, self.durable_offset)
            self.high_watermark = max(self.high_watermark, committed)

    def _state(self) -> Iterator[str]:
        hw = self.high_watermark
        lso = self.transactions.last_stable_offset(hw)
        yield f"leo {self.end_offset} durable {self.durable_offset} hw {hw} lso {lso}"
        leading = self.role
        if isinstance(leading, Leading) and leading.followers:
            pending = leading.pending
            proposal = (
                "" if pending is None else " proposes " + " ".join(f"{each}@{epoch}" for each, epoch in pending.isr)
            )
            yield f"isr {','.join(map(str, leading.isr))} of partition epoch {leading.partition_epoch}{proposal}"


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
