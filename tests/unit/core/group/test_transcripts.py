"""Lives of groups as transcripts: `*.txt` beside this file.

The rolling upgrade has the records that Apache Kafka 4.3.1 writes.

A line that begins with ">" is a request. The lines under it are the reply, then the records, each after a "+". Members
of the topic `t` have short names; "-" stands for a tombstone, "3@2" for partition 3 assigned since epoch 2. Each file
is one group, from its first member on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.group.consumer.check import LEAVING
from tests.unit.core.group.test_consumer import Room
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


class Stage:
    """A reader of transcripts: each method runs one kind of request and returns the lines that follow it."""

    def __init__(self) -> None:
        self.room = Room()
        self.names: dict[str, str] = {}  # member id -> how the play calls it
        self.joined: dict[str, JoinGroupResponse] = {}
        self.waiting: dict[str, Any] = {}

    def perform(self, line: str) -> list[str]:
        command, *words = line.split()
        before = len(self.room.log)
        said = list(getattr(self, command)(*words))
        return said + [f"+ {self.tell(record)}" for record in self.room.log[before:]]

    def join(self, name: str, *owned: str) -> Iterator[str]:
        """join name [partition...]: by the classic protocol, owning these; a new member is given its id first."""
        member_id = next((known for known, other in self.names.items() if other == name), "")
        if not member_id:
            member_id = self.room.new_id()
            self.names[member_id] = name
        self.waiting[name] = object()
        self.room.join(member_id, self.waiting[name], protocols=owning(*map(int, owned)))
        self.room.wait(0)
        for other, token in list(self.waiting.items()):
            if token in self.room.replies:
                del self.waiting[other]
                yield self._joined(other, self.room.replies[token])

    def _joined(self, name: str, answer: JoinGroupResponse) -> str:
        if answer.error_code:
            return f"{name} {ErrorCode(answer.error_code).name}"
        self.joined[name] = answer
        leads = "".join(f" {self.names[one.member_id]}" for one in answer.members)
        return f"{name} generation {answer.generation_id}" + (f", leads{leads}" if leads else "")

    def sync(self, name: str, *given: str) -> Iterator[str]:
        """sync name [other=partition,partition...]"""
        ids = {other: member_id for member_id, other in self.names.items()}
        shares = dict(share.split("=") for share in given)
        answer = self.room.sync(
            self.joined[name],
            given={ids[other]: assigned(*map(int, share.split(","))) for other, share in shares.items()},
        )
        yield answer.name if isinstance(answer, ErrorCode) else f"{name} has {had(answer.assignment)}"

    def beat(self, name: str) -> Iterator[str]:
        """beat name: a heartbeat of the classic protocol"""
        yield self.room.beat(self.joined[name]).name

    def enter(self, name: str) -> Iterator[str]:
        """enter name: by the new protocol"""
        self.names[name] = name
        yield self._told(self.room.enter(name))

    def say(self, name: str, *owned: str) -> Iterator[str]:
        """say name [partition...]: a heartbeat of the new protocol, owning these"""
        yield self._told(self.room.say(name, owned={"t": [int(one) for one in owned]} if owned else {}))

    def _told(self, answer: Any) -> str:
        if isinstance(answer, ErrorCode):
            return answer.name
        given = (
            ""
            if answer.assignment is None
            else " " + str([index for one in answer.assignment.topic_partitions for index in one.partitions])
        )
        return f"epoch {answer.member_epoch}{given}"

    def leave(self, name: str) -> Iterator[str]:
        """leave name: by the protocol that it uses"""
        member_id = next(known for known, other in self.names.items() if other == name)
        if member_id == name:
            yield self._told(self.room.say(name, member_epoch=LEAVING))
        else:
            yield " ".join(ErrorCode(code).name for code in self.room.leave((member_id, None)))
        self.room.wait(0)

    def describe(self) -> Iterator[str]:
        """describe: of which kind the group is, and in which state"""
        told = self.room.told()
        yield f"classic {self.room.state()}" if told.error_code else f"consumer {told.group_state}"

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
    """Return the script with the machine's actual replies and records."""
    stage, lines = Stage(), list[str]()
    for line in script.splitlines():
        if line.startswith("#"):
            lines.append(line)
        elif line.startswith(">"):
            lines += [line, *stage.perform(line[2:])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("play", PLAYS, ids=lambda path: path.stem)
def test_the_transcript_matches_the_machine(play: Path) -> None:
    script = play.read_text()
    assert played(script) == script
