"""What members of a consumer group must see of a broker, written once; a file for each client says how it joins one."""

from __future__ import annotations

import itertools
import multiprocessing
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol, TypeVar

import pytest

from tests.interop.scenarios import PATIENCE_S, Client, Message
from tools.broker_process import BrokerProcess

T = TypeVar("T")
PARTITIONS = 4
SESSION_MS = 6000
SOON = ("--set", "group.consumer.min.heartbeat.interval.ms=100", "--set", "group.consumer.heartbeat.interval.ms=200")
"""Options of a broker whose members of the new protocol need not wait for seconds to hear of a change."""
DYING_SESSION_MS = 1500
SHORT_SESSIONS = (
    "--set",
    "group.min.session.timeout.ms=500",
    "--set",
    "group.consumer.min.session.timeout.ms=500",
    "--set",
    f"group.consumer.session.timeout.ms={DYING_SESSION_MS}",
)
"""Options of a broker that may soon forget members of both protocols when it does not hear of them."""
SAME_SESSIONS = (
    "--set",
    "group.consumer.min.session.timeout.ms=500",
    "--set",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
)
"""Options of a broker that misses members of both protocols equally soon, should one not have been able to leave."""
TURNS_MAX = 150
"""Polls of each member before a test gives up; a poll takes 0.2 s at most."""


class Member(Protocol):
    """A consumer that has subscribed. A poll also does all that a member must do to stay one."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, instance: str | None = None, session_ms: int = SESSION_MS
    ) -> None: ...

    def poll(self) -> Sequence[tuple[int, int]]:
        """(partition, offset) of what came within 0.2 s."""

    def assigned(self) -> set[int]:
        """The partitions that it has now."""

    def commit(self) -> None:
        """How far it has come in all of them; an error if that did not hold."""

    def committed(self, partition: int) -> int | None:
        """The offset that the group goes on from; None where there is none."""

    def close(self) -> None:
        """Leave, unless it is a static member."""


Joining = Callable[..., Member]
Found = Counter[tuple[int, int]]
"""How often each record came, by partition and offset."""


class Dying:
    """A member in a process of its own, which does what it is told and can be killed."""

    def __init__(self, member: type[Member], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=obey, args=(other, member, *arguments), daemon=True)
        self._process.start()

    def _tell(self, what: str) -> Any:
        self._pipe.send(what)
        assert self._pipe.poll(2 * PATIENCE_S)
        told, failure = self._pipe.recv()
        if failure:
            raise RuntimeError(failure)
        return told

    def poll(self) -> Sequence[tuple[int, int]]:
        return self._tell("poll")

    def assigned(self) -> set[int]:
        return self._tell("assigned")

    def commit(self) -> None:
        self._tell("commit")

    def die(self) -> None:
        """SIGKILL: the group hears nothing of it any more."""
        self._process.kill()
        self._process.join()

    close = die


def obey(pipe: Connection, member_type: type[Member], bootstrap: str, topic: str, group: str) -> None:
    """Call what the other end of the pipe names, and tell what it gave and why it failed."""
    member = member_type(bootstrap, topic, group, None, DYING_SESSION_MS)
    while True:
        try:
            told = getattr(member, pipe.recv())(), ""
        except Exception as error:  # noqa: BLE001 - it is raised at the other end
            told = None, repr(error)
        pipe.send(told)


class GroupScenarios:
    """Subclassed by a file for each client: `library` administers and sends, `member` is in groups."""

    library: ClassVar[type[Client]]
    member: ClassVar[type[Member]]

    @pytest.fixture
    def client(self, bootstrap: str) -> Iterator[Client]:
        with closing(self.library(bootstrap)) as client:
            yield client

    @pytest.fixture
    def joining(self, bootstrap: str) -> Iterator[Joining]:
        """`joining(topic, group)` gives a new member; none outlives the test."""
        with ExitStack() as stack:
            yield lambda topic, group, instance=None: stack.enter_context(
                closing(self.member(bootstrap, topic, group, instance))
            )

    def filled(self, client: Client, count: int = 40) -> str:
        """A new topic with so many records, spread evenly."""
        topic = f"topic-{uuid.uuid4().hex[:12]}"
        client.create_topic(topic, PARTITIONS)
        self.fill(client, topic, count)
        return topic

    def fill(self, client: Client, topic: str, count: int) -> None:
        client.send(
            topic,
            [Message(number % PARTITIONS, None, b"%d" % number, (), 1_700_000_000_000) for number in range(count)],
        )

    def test_a_member_reads_all_and_another_goes_on(self, client: Client, bootstrap: str, joining: Joining) -> None:
        topic, group = self.filled(client), uuid.uuid4().hex
        with closing(self.member(bootstrap, topic, group)) as first:
            assert read(40, first) == Counter({(number % PARTITIONS, number // PARTITIONS): 1 for number in range(40)})
            assert first.assigned() == set(range(PARTITIONS))
            first.commit()
        self.fill(client, topic, 8)
        second = joining(topic, group)
        assert sorted(read(8, second)) == list(itertools.product(range(PARTITIONS), (10, 11)))
        assert second.committed(0) == 10

    def test_members_share_what_there_is(self, client: Client, joining: Joining) -> None:
        topic, group = self.filled(client, 0), uuid.uuid4().hex
        members = [joining(topic, group) for _ in range(3)]
        shared(members)
        self.fill(client, topic, 40)
        assert set(read(40, *members).values()) == {1}
        members.pop().close()
        shared(members)

    def test_members_stay_over_a_stop_and_a_kill(self, start_broker: Callable[..., BrokerProcess]) -> None:
        """What they have committed is there before they commit again, though another joined when the broker died."""
        broker = start_broker(*SAME_SESSIONS, *SOON)
        with closing(self.library(broker.address)) as client, ExitStack() as stack:
            topic, group = self.filled(client), uuid.uuid4().hex
            members = [stack.enter_context(closing(self.member(broker.address, topic, group))) for _ in range(2)]
            read(40, *members, found=shared(members))
            commit_all(members, 10)
            for end, count in ((broker.stop, 10), (broker.kill, 12)):
                members.append(stack.enter_context(closing(self.member(broker.address, topic, group))))
                assert not polled(members)
                end()
                broker.start()
                assert retried(lambda: members[0].committed(1)) == count
                assert not shared(members)
                members.pop().close()
                retried(lambda: self.fill(client, topic, 8))
                assert set(read(8, *members)) >= set(itertools.product(range(PARTITIONS), (count, count + 1)))
                shared(members)
                commit_all(members, count + 2)

    def test_the_others_take_over_from_a_member_that_dies(self, start_broker: Callable[..., BrokerProcess]) -> None:
        broker = start_broker("--memory", *SHORT_SESSIONS, *SOON)
        with closing(self.library(broker.address)) as client, ExitStack() as stack:
            topic, group = self.filled(client, 0), uuid.uuid4().hex
            dying = stack.enter_context(closing(Dying(self.member, broker.address, topic, group)))
            heir = stack.enter_context(closing(self.member(broker.address, topic, group, None, DYING_SESSION_MS)))
            shared([dying, heir])
            self.fill(client, topic, 40)
            read(40, dying, heir)
            commit_all([heir, dying], 10)
            dying.die()
            assert not shared([heir])
            self.fill(client, topic, 8)
            assert sorted(read(8, heir)) == list(itertools.product(range(PARTITIONS), (10, 11)))

    def test_a_static_member_takes_its_partitions_again(self, client: Client, bootstrap: str, joining: Joining) -> None:
        topic, group = self.filled(client, 0), uuid.uuid4().hex
        other, static = joining(topic, group, "other"), self.member(bootstrap, topic, group, "static")
        with closing(static):
            shared([other, static])
            mine, others = static.assigned(), other.assigned()
        again = joining(topic, group, "static")
        shared([other, again])
        assert (again.assigned(), other.assigned()) == (mine, others)


def read(count: int, *members: Member, found: Found | None = None) -> Found:
    """Poll until so many records came, each counted once, and with those that were `found` before."""
    found = Counter() if found is None else found
    for _ in range(TURNS_MAX):
        if len(found) >= count:
            return found
        found.update(polled(members))
    raise AssertionError(f"only {len(found)} of {count} records came")


def shared(members: Sequence[Member]) -> Found:
    """Poll until each member has partitions, and each partition one member; what came meanwhile."""
    found: Found = Counter()
    for _ in range(TURNS_MAX):
        found.update(polled(members))
        if is_shared(members):
            return found
    raise AssertionError(f"the partitions are assigned as {[member.assigned() for member in members]}")


def is_shared(members: Sequence[Member]) -> bool:
    """Whether each member has partitions, and each partition one member, as far as the members know."""
    assigned = [member.assigned() for member in members]
    return all(assigned) and sorted(itertools.chain(*assigned)) == list(range(PARTITIONS))


def commit_all(members: Sequence[Member], end: int) -> None:
    """Until the group has read every partition to its `end` and said so; a rebalance makes members read some again."""
    for _ in range(TURNS_MAX):
        for member in members:
            retried(member.commit, *members)
        if all(retried(partial(members[0].committed, partition)) == end for partition in range(PARTITIONS)):
            return
        polled(members)
    raise AssertionError(f"not all is committed up to {end}")


def polled(members: Sequence[Member]) -> list[tuple[int, int]]:
    """Poll all members at the same time: one that is not polled cannot join, and the others wait for it."""
    with ThreadPoolExecutor(len(members)) as pool:
        return [record for found in pool.map(lambda member: member.poll(), members) for record in found]


def retried(deed: Callable[[], T], *among: Member) -> T:
    """Again while a client finds its way back to a broker that was away, or one `among` members to its group."""
    deadline = time.monotonic() + 2 * PATIENCE_S  # one attempt may take half of it
    while True:
        try:
            return deed()
        except Exception:
            if time.monotonic() > deadline:
                raise
            if among:
                polled(among)
            else:
                time.sleep(0.1)
