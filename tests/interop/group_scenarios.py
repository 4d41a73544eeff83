"""Scenarios with consumer groups, for every client library. The file of each client defines how to create a member."""

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
"""Broker options with which members of the consumer protocol send heartbeats often."""
DYING_SESSION_MS = 1500
SHORT_SESSIONS = (
    "--set",
    "group.min.session.timeout.ms=500",
    "--set",
    "group.consumer.min.session.timeout.ms=500",
    "--set",
    f"group.consumer.session.timeout.ms={DYING_SESSION_MS}",
)
"""Broker options for short session timeouts in both protocols."""
SURVIVING_SESSION_MS = 3000
SAME_SESSIONS = (
    "--set",
    "group.min.session.timeout.ms=500",
    "--set",
    "group.consumer.min.session.timeout.ms=500",
    "--set",
    f"group.consumer.session.timeout.ms={SURVIVING_SESSION_MS}",
)
"""Broker options for equal session timeouts in both protocols, for members that cannot leave their group."""
POLL_S = 0.05
"""The longest time that a member polls for records. A test looks at its members after each poll."""
POLLS_OF_A_REBALANCE = 4
"""The polls after which the rebalance for a new member has begun: members send heartbeats every 200 ms."""
TURNS_S_MAX = 45
"""The time of polls after which a test fails."""


class Member(Protocol):
    """A subscribed consumer. Polling it also renews its session."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, instance: str | None = None, session_ms: int = SESSION_MS
    ) -> None: ...

    def poll(self) -> Sequence[tuple[int, int]]:
        """Return (partition, offset) of the records that arrive within `POLL_S`."""

    def assigned(self) -> set[int]:
        """Return the currently assigned partitions."""

    def commit(self) -> None:
        """Commit the positions of all assigned partitions; raise an exception on failure."""

    def committed(self, partition: int) -> int | None:
        """Return the group's committed offset, or None."""

    def close(self) -> None:
        """Leave the group, unless the member is static."""


Joining = Callable[..., Member]
Found = Counter[tuple[int, int]]
"""Map each (partition, offset) to the number of times it was read."""


class KillableMember:
    """A member in its own process, which can be killed."""

    def __init__(self, member: type[Member], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=obey, args=(other, member, *arguments), daemon=True)
        self._process.start()

    def _tell(self, what: str, *arguments: object) -> Any:
        self._pipe.send((what, arguments))
        assert self._pipe.poll(2 * PATIENCE_S)
        outcome, failure = self._pipe.recv()
        if failure:
            raise RuntimeError(failure)
        return outcome

    def poll(self) -> Sequence[tuple[int, int]]:
        return self._tell("poll")

    def assigned(self) -> set[int]:
        return self._tell("assigned")

    def commit(self) -> None:
        self._tell("commit")

    def committed(self, partition: int) -> int | None:
        return self._tell("committed", partition)

    def kill(self) -> None:
        """Kill the process with SIGKILL, so that the member never leaves."""
        self._process.kill()
        self._process.join()

    close = kill


def obey(pipe: Connection, member_type: type[Member], bootstrap: str, topic: str, group: str) -> None:
    """Call the methods that the other end of the pipe names; return each result or error through the pipe."""
    member = member_type(bootstrap, topic, group, None, DYING_SESSION_MS)
    while True:
        try:
            what, arguments = pipe.recv()
            outcome = getattr(member, what)(*arguments), ""
        except Exception as error:  # noqa: BLE001 - it is raised at the other end
            outcome = None, repr(error)
        pipe.send(outcome)


class GroupScenarios:
    """Scenarios with groups. A subclass for each client defines `library`, for topics and messages, and `member`."""

    library: ClassVar[type[Client]]
    member: ClassVar[type[Member]]

    @pytest.fixture
    def client(self, bootstrap: str) -> Iterator[Client]:
        with closing(self.library(bootstrap)) as client:
            yield client

    @pytest.fixture
    def joining(self, bootstrap: str) -> Iterator[Joining]:
        """Yield `joining(topic, group)`, which returns a new member. All members are closed after the test."""
        with ExitStack() as stack:
            yield lambda topic, group, instance=None: stack.enter_context(
                closing(self.member(bootstrap, topic, group, instance))
            )

    def filled(self, client: Client, count: int = 40) -> str:
        """Return a new topic with `count` records, spread evenly over its partitions."""
        topic = f"topic-{uuid.uuid4().hex[:12]}"
        client.create_topic(topic, PARTITIONS)
        self.fill(client, topic, count)
        return topic

    def fill(self, client: Client, topic: str, count: int) -> None:
        client.send(
            topic,
            [Message(number % PARTITIONS, None, b"%d" % number, (), 1_700_000_000_000) for number in range(count)],
        )

    def test_a_new_member_continues_at_the_committed_offsets(
        self, client: Client, bootstrap: str, joining: Joining
    ) -> None:
        topic, group = self.filled(client), uuid.uuid4().hex
        with closing(self.member(bootstrap, topic, group)) as first:
            assert read(40, first) == Counter({(number % PARTITIONS, number // PARTITIONS): 1 for number in range(40)})
            assert first.assigned() == set(range(PARTITIONS))
            first.commit()
        self.fill(client, topic, 8)
        second = joining(topic, group)
        assert sorted(read(8, second)) == list(itertools.product(range(PARTITIONS), (10, 11)))
        assert second.committed(0) == 10

    def test_members_share_the_partitions(self, client: Client, joining: Joining) -> None:
        topic, group = self.filled(client, 0), uuid.uuid4().hex
        members = [joining(topic, group) for _ in range(3)]
        shared(members)
        self.fill(client, topic, 40)
        assert set(read(40, *members).values()) == {1}
        members.pop().close()
        shared(members)

    def test_members_survive_a_stop_and_a_kill_of_the_broker(self, start_broker: Callable[..., BrokerProcess]) -> None:
        """The broker is killed during a rebalance, and the committed offsets survive."""
        broker = start_broker(*SAME_SESSIONS, *SOON)
        with closing(self.library(broker.address)) as client, ExitStack() as stack:
            topic, group = self.filled(client), uuid.uuid4().hex
            joined = partial(self.member, broker.address, topic, group, None, SURVIVING_SESSION_MS)
            members = [stack.enter_context(closing(joined())) for _ in range(2)]
            read(40, *members, found=shared(members))
            commit_all(members, 10)
            for end, count in ((broker.stop, 10), (broker.kill, 12)):
                members.append(stack.enter_context(closing(joined())))
                for _ in range(POLLS_OF_A_REBALANCE):
                    assert all(offset < count for _, offset in polled(members))  # A rebalance may repeat some records.
                end()
                broker.start()
                assert retried(lambda: members[0].committed(1)) == count
                assert not shared(members)
                members.pop().close()
                retried(lambda: self.fill(client, topic, 8))
                assert set(read(8, *members)) >= set(itertools.product(range(PARTITIONS), (count, count + 1)))
                shared(members)
                commit_all(members, count + 2)

    def test_the_partitions_of_a_killed_member_are_reassigned(self, start_broker: Callable[..., BrokerProcess]) -> None:
        broker = start_broker("--memory", *SHORT_SESSIONS, *SOON)
        with closing(self.library(broker.address)) as client, ExitStack() as stack:
            topic, group = self.filled(client, 0), uuid.uuid4().hex
            dying = stack.enter_context(closing(KillableMember(self.member, broker.address, topic, group)))
            heir = stack.enter_context(closing(self.member(broker.address, topic, group, None, DYING_SESSION_MS)))
            shared([dying, heir])
            self.fill(client, topic, 40)
            read(40, dying, heir)
            commit_all([heir, dying], 10)
            dying.kill()
            assert not shared([heir])
            self.fill(client, topic, 8)
            assert sorted(read(8, heir)) == list(itertools.product(range(PARTITIONS), (10, 11)))

    def test_a_restarted_static_member_gets_its_partitions_again(
        self, client: Client, bootstrap: str, joining: Joining
    ) -> None:
        topic, group = self.filled(client, 0), uuid.uuid4().hex
        other, static = joining(topic, group, "other"), self.member(bootstrap, topic, group, "static")
        with closing(static):
            shared([other, static])
            mine, others = static.assigned(), other.assigned()
        again = joining(topic, group, "static")
        shared([other, again])
        assert (again.assigned(), other.assigned()) == (mine, others)


def member_settings(bootstrap: str, group: str, instance: str | None, session_ms: int) -> dict[str, Any]:
    """Return the settings of a member of a classic group, in the names that kafka-python and aiokafka share."""
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_instance_id": instance,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": 200,
        "fetch_max_wait_ms": 50,
    }


def turns() -> Iterator[None]:
    """Yield until `TURNS_S_MAX` is over."""
    deadline = time.monotonic() + TURNS_S_MAX
    while time.monotonic() < deadline:
        yield


def read(count: int, *members: Member, found: Found | None = None) -> Found:
    """Poll until `count` distinct records were read, including the records in `found`."""
    found = Counter() if found is None else found
    for _ in turns():
        if len(found) >= count:
            return found
        found.update(polled(members))
    raise AssertionError(f"only {len(found)} of {count} records came")


def shared(members: Sequence[Member]) -> Found:
    """Poll until every member has partitions and every partition has one member; return the records that were read."""
    found: Found = Counter()
    for _ in turns():
        found.update(polled(members))
        if is_shared(members):
            return found
    raise AssertionError(f"the partitions are assigned as {[member.assigned() for member in members]}")


def is_shared(members: Sequence[Member]) -> bool:
    """Whether every member has partitions and every partition has one member, according to the members."""
    assigned = [member.assigned() for member in members]
    return all(assigned) and sorted(itertools.chain(*assigned)) == list(range(PARTITIONS))


def commit_all(members: Sequence[Member], end: int) -> None:
    """Poll until every partition is read and committed up to `end`. A rebalance may repeat records."""
    for _ in turns():
        for member in members:
            retried(member.commit, *members)
        if all(retried(partial(members[0].committed, partition)) == end for partition in range(PARTITIONS)):
            return
        polled(members)
    raise AssertionError(f"not all is committed up to {end}")


def polled(members: Sequence[Member]) -> list[tuple[int, int]]:
    """Poll all members concurrently, since a member that is not polled cannot join and a rebalance waits for it."""
    with ThreadPoolExecutor(len(members)) as pool:
        return [record for found in pool.map(lambda member: member.poll(), members) for record in found]


def retried(action: Callable[[], T], *among: Member) -> T:
    """Repeat `action` while a client reconnects to a restarted broker or a member in `among` rejoins its group."""
    deadline = time.monotonic() + 2 * PATIENCE_S  # One attempt may take half of this time.
    while True:
        try:
            return action()
        except Exception:
            if time.monotonic() > deadline:
                raise
            if among:
                polled(among)
            else:
                time.sleep(0.1)
