"""Transcripts of groups in `*.txt` beside this file. The records in the rolling upgrade are those of Apache Kafka
4.3.1.

A line that begins with ">" is a request. The lines after it are the response and then the records, each after a "+".
Members of the topic `t` have short names; "-" is a tombstone, and "3@2" is partition 3, assigned since epoch 2. Each
file tells of one group from its first member on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.group.consumer.check import LEAVING
from tests.unit.core.group.test_consumer import ConsumerGroupHarness
from tests.unit.core.group.test_migration import assigned, had, owning
from wire.error_codes import ErrorCode
from wire.messages.join_group import JoinGroupResponse
from wire.stored.consumer_group import ConsumerGroupCurrentMemberAssignmentValue

PLAYS = sorted(Path(__file__).parent.glob("*.txt"))
KINDS = {
    1: "offset",
    2: "classic group",
    3: "epoch",
    4: "topics",
    5: "member",
    6: "assignment",
    7: "target",
    8: "current",
}
STATES = ("stable", "unrevoked", "unreleased")


class TranscriptRunner:
    """An interpreter of transcripts. Each method runs one command and yields the lines of its result."""

    def __init__(self) -> None:
        self.harness = ConsumerGroupHarness()
        self.names: dict[str, str] = {}  # short names by member id
        self.joined: dict[str, JoinGroupResponse] = {}
        self.waiting: dict[str, Any] = {}

    def perform(self, line: str) -> list[str]:
        command, *words = line.split()
        before = len(self.harness.log)
        lines = list(getattr(self, command)(*words))
        return lines + [f"+ {self.tell(record)}" for record in self.harness.log[before:]]

    def join(self, name: str, *owned: str) -> Iterator[str]:
        """Run `join name [partition...]`: JoinGroup of a member with these partitions; a new member
        first gets its id.
        """
        member_id = next((known for known, other in self.names.items() if other == name), "")
        if not member_id:
            member_id = self.harness.new_id()
            self.names[member_id] = name
        self.waiting[name] = object()
        self.harness.join(member_id, self.waiting[name], protocols=owning(*map(int, owned)))
        self.harness.wait(0)
        for other, token in list(self.waiting.items()):
            if token in self.harness.replies:
                del self.waiting[other]
                yield self._joined(other, self.harness.replies[token])

    def _joined(self, name: str, answer: JoinGroupResponse) -> str:
        if answer.error_code:
            return f"{name} {ErrorCode(answer.error_code).name}"
        self.joined[name] = answer
        leads = "".join(f" {self.names[one.member_id]}" for one in answer.members)
        return f"{name} generation {answer.generation_id}" + (f", leads{leads}" if leads else "")

    def sync(self, name: str, *given: str) -> Iterator[str]:
        """Run `sync name [other=partition,partition...]`: SyncGroup, with the assignments of a leader."""
        ids = {other: member_id for member_id, other in self.names.items()}
        shares = dict(share.split("=") for share in given)
        answer = self.harness.sync(
            self.joined[name],
            given={ids[other]: assigned(*map(int, share.split(","))) for other, share in shares.items()},
        )
        yield answer.name if isinstance(answer, ErrorCode) else f"{name} has {had(answer.assignment)}"

    def beat(self, name: str) -> Iterator[str]:
        """Run `beat name`: Heartbeat of a classic member."""
        yield self.harness.beat(self.joined[name]).name

    def enter(self, name: str) -> Iterator[str]:
        """Run `enter name`: the first ConsumerGroupHeartbeat of a member."""
        self.names[name] = name
        yield self._heartbeat_result(self.harness.enter(name))

    def say(self, name: str, *owned: str) -> Iterator[str]:
        """Run `say name [partition...]`: ConsumerGroupHeartbeat of a member that owns these partitions."""
        yield self._heartbeat_result(self.harness.say(name, owned={"t": [int(one) for one in owned]} if owned else {}))

    def _heartbeat_result(self, answer: Any) -> str:
        if isinstance(answer, ErrorCode):
            return answer.name
        given = (
            ""
            if answer.assignment is None
            else " " + str([index for one in answer.assignment.topic_partitions for index in one.partitions])
        )
        return f"epoch {answer.member_epoch}{given}"

    def leave(self, name: str) -> Iterator[str]:
        """Run `leave name`: leave in the protocol of the member."""
        member_id = next(known for known, other in self.names.items() if other == name)
        if member_id == name:
            yield self._heartbeat_result(self.harness.say(name, member_epoch=LEAVING))
        else:
            yield " ".join(ErrorCode(code).name for code in self.harness.leave((member_id, None)))
        self.harness.wait(0)

    def describe(self) -> Iterator[str]:
        """Run `describe`: the type and state of the group."""
        described = self.harness.described()
        yield f"classic {self.harness.state()}" if described.error_code else f"consumer {described.group_state}"

    def tell(self, record: Any) -> str:
        kind, value = KINDS[record.key.record_type], record.value
        name = self.names.get(getattr(record.key, "member_id", ""), "")
        return " ".join(filter(None, (kind, name, "-" if value is None else self._say(record.key.record_type, value))))

    def _say(self, kind: int, value: Any) -> str:
        if kind == 2:
            members = "".join(
                f" {self.names[one.member_id]}={had(one.assignment) if one.assignment else []}" for one in value.members
            )
            return f"generation={value.generation} leader={self.names.get(value.leader)}{members}"
        if kind == 5:
            classic = value.classic_member_metadata
            return "" if classic is None else f"classic {classic.supported_protocols[0].name}"
        if kind == 7:
            return str([index for one in value.topic_partitions for index in one.partitions])
        if kind == 8:
            return self._current(value)
        return f"{value.epoch if kind == 3 else value.assignment_epoch}"

    def _current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> str:
        has, revoking = (
            " ".join(
                f"{index}@{epoch}"
                for one in listed
                for index, epoch in zip(one.partitions, one.assignment_epochs or (), strict=True)
            )
            for listed in (value.assigned_partitions, value.partitions_pending_revocation)
        )
        return f"epoch={value.member_epoch} previous={value.previous_member_epoch} {STATES[value.state]} [{has}]" + (
            f" revoking [{revoking}]" if revoking else ""
        )


def played(script: str) -> str:
    """Return the script with the actual responses and records of the group."""
    stage, lines = TranscriptRunner(), list[str]()
    for line in script.splitlines():
        if line.startswith("#"):
            lines.append(line)
        elif line.startswith(">"):
            lines += [line, *stage.perform(line[2:])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("play", PLAYS, ids=lambda path: path.stem)
def test_each_transcript_matches_the_actual_responses_and_records(play: Path) -> None:
    script = play.read_text()
    assert played(script) == script
