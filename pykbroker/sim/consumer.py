"""A consumer that reads all records, some of them twice, and records the responses."""

from __future__ import annotations

from itertools import groupby

import trio

from pykbroker.sim.client import LOST, TEMPORARY, Again, Dialer, SimConnection
from pykbroker.sim.committed import visible
from pykbroker.sim.history import CONTROL, History, Lapse, Place, PollResult
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from wire.records.batch import batches
from wire.records.record import records
from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

LIST_OFFSETS_VERSION = 7
RESPONSE_BYTES_MAX = 1 << 20
BATCH_BYTES_MAX = 16 << 20
PARTITION_BYTES_MAX = (1, 1000, 50_000, 1 << 20)
MAX_WAIT_MS = (0, 100, 500)
BACKOFF_S = 0.3
THINK_S = 0.05
REWIND, REWIND_OFFSETS_MAX = 0.05, 50


class NotServed(Again):
    """An error for a partition that cannot be read now."""


class SimConsumer:
    """A consumer that reads the partitions `places` from their start, with read_committed if `committed` is true."""

    def __init__(
        self, name: str, dialer: Dialer, history: History, places: list[Place], *, committed: bool = False
    ) -> None:
        self.name, self._dialer, self._history, self._dice = name, dialer, history, dialer.dice
        self._committed = committed
        self._positions = dict.fromkeys(places, 0)

    async def run(self) -> None:
        """Read all partitions until cancelled."""
        while True:
            try:
                async with self._dialer.connected() as connection:
                    while True:
                        await self._poll(connection)
            except LOST:
                continue

    async def _poll(self, connection: SimConnection) -> None:
        dice, positions = self._dice, self._positions
        places = sorted(dice.sample(sorted(positions), dice.randrange(1, len(positions) + 1)))
        for place in places:
            if dice.random() < REWIND:
                positions[place] = max(0, positions[place] - dice.randrange(REWIND_OFFSETS_MAX))
        asked = {place: positions[place] for place in places}
        lapsed: list[Place] = []
        polls = await fetch(
            connection,
            self.name,
            asked,
            self._history,
            max_wait_ms=dice.choice(MAX_WAIT_MS),
            partition_bytes_max=dice.choice(PARTITION_BYTES_MAX),
            committed=self._committed,
            lapsed=lapsed,
        )
        for poll in polls:
            positions[poll.place] = poll.next_offset
        for place in lapsed:
            first = await first_offset(connection, place)
            self._history.lapses.append(Lapse(self.name, place, positions[place], first))
            positions[place] = first
        await trio.sleep(dice.expovariate(1 / THINK_S) if len(polls) == len(places) else BACKOFF_S)


async def fetch(
    connection: SimConnection,
    name: str,
    asked: dict[Place, int],
    history: History,
    *,
    max_wait_ms: int,
    partition_bytes_max: int,
    committed: bool = False,
    lapsed: list[Place] | None = None,
) -> list[PollResult]:
    """Send one Fetch from these offsets, and return the results without partitions that have a retriable error.

    Partitions whose offset is out of range are added to `lapsed`, if an operator has had records of them deleted. Raise
    an error of LOST if the connection is lost.
    """
    version = connection.any_version(ApiKey.FETCH)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=RESPONSE_BYTES_MAX,
        isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
        topics=_topics(connection, asked, partition_bytes_max),
    )
    began_s = trio.current_time()
    answer = await connection.ask(request, version)
    polls = []
    for found in answer.responses:
        for data in found.partitions:
            place = connection.topic_named(found.topic, found.topic_id), data.partition_index
            if not data.error_code:
                poll = PollResult(
                    name,
                    place,
                    asked[place],
                    [],
                    data.high_watermark,
                    began_s,
                    trio.current_time(),
                    committed,
                    asked[place],
                )
                _open(data, poll, history)
                polls.append(poll)
            elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and place in history.deleted:
                if lapsed is not None:
                    lapsed.append(place)
            elif data.error_code not in TEMPORARY:
                code = ErrorCode(data.error_code)
                history.unexpected.append(f"{name} got {code.name} of {place} at {asked.get(place)}")
    history.polls += polls
    return polls


def _topics(connection: SimConnection, asked: dict[Place, int], partition_bytes_max: int) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic,
            connection.topic_id(topic),
            [
                FetchPartition(partition=place[1], fetch_offset=asked[place], partition_max_bytes=partition_bytes_max)
                for place in places
            ],
        )
        for topic, places in groupby(sorted(asked), key=lambda place: place[0])
    ]


def _open(data: PartitionData, poll: PollResult, history: History) -> None:
    """Add the records of a response to `poll`, from the poll's offset on."""
    try:
        found = list(batches(data.records or b""))
        for batch in found:
            if not batch.crc_ok():
                raise DecodeError(f"the batch of offset {batch.base_offset} does not match its checksum")
        wanted = visible(found, data.aborted_transactions or ()) if poll.committed else found
        for batch in wanted:
            for record in records(batch, BATCH_BYTES_MAX):
                if record.offset >= poll.offset:
                    value = CONTROL if batch.is_control else history.shared(record.value or b"")
                    poll.found.append((record.offset, value))
        if found:
            poll.next_offset = max(poll.offset, found[-1].last_offset + 1)
    except DecodeError as damage:
        history.unexpected.append(f"{poll.consumer} at {poll.place} was given damaged bytes: {damage}")


async def read_all(connection: SimConnection, place: Place, history: History, *, committed: bool = False) -> PollResult:
    """Read a partition from its first offset to its end. Raise NotServed or an error of LOST."""
    first = await first_offset(connection, place) if place in history.deleted else 0
    latest = await end_offset(connection, place, committed=committed)
    whole = PollResult(
        "last reader", place, first, [], latest, trio.current_time(), trio.current_time(), committed, first
    )
    while whole.next_offset < latest:
        polls = await fetch(
            connection,
            whole.consumer,
            {place: whole.next_offset},
            history,
            max_wait_ms=0,
            partition_bytes_max=RESPONSE_BYTES_MAX,
            committed=committed,
        )
        if not polls or polls[0].next_offset == whole.next_offset:
            raise NotServed(f"{place}: nothing at {whole.next_offset}, the log ends at {latest}")
        whole.found += polls[0].found
        whole.next_offset = polls[0].next_offset
    return whole


async def end_offset(connection: SimConnection, place: Place, *, committed: bool) -> int:
    """Return the high watermark, or the last stable offset. Raise NotServed or an error of LOST."""
    return await _listed_offset(connection, place, LATEST_TIMESTAMP, READ_COMMITTED if committed else READ_UNCOMMITTED)


async def first_offset(connection: SimConnection, place: Place) -> int:
    """Return the log start offset. Raise NotServed or an error of LOST."""
    return await _listed_offset(connection, place, EARLIEST_TIMESTAMP, READ_UNCOMMITTED)


async def _listed_offset(connection: SimConnection, place: Place, timestamp: int, isolation_level: int) -> int:
    topic, partition = place
    asked = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
    )
    request = ListOffsetsRequest(isolation_level=isolation_level, topics=[asked])
    answer = await connection.ask(request, LIST_OFFSETS_VERSION)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise NotServed(f"{place}: {ErrorCode(found.error_code).name}")
    return found.offset
