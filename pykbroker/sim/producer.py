"""A producer without a timeout. It repeats unacknowledged batches as librdkafka does.

After an error, it waits for the responses to all batches in flight, and then sends all that are not acknowledged again,
in order. A broker may answer OUT_OF_ORDER_SEQUENCE_NUMBER only if the repeated batch was deleted. The producer then
also begins a new producer id, as Kafka gives one to an idempotent producer for a new epoch. Batches that were written
without an acknowledgement are then written twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio
from msgspec.structs import replace

from pykbroker.client.pending_response import PendingResponse
from pykbroker.sim.client import LOST, TEMPORARY, Again, Dialer, SimConnection
from pykbroker.sim.history import History, Place, Send, SendOutcome
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder, sealed
from wire.records.compression import Codec

IN_FLIGHT_MAX = 5
"""The maximum number of batches in flight, as in Kafka's idempotent producer."""
ACKS_NONE = 0
TIMEOUT_MS = 5000
THINK_S = 0.25
"""The average pause between two bursts of batches, in seconds."""
RETRY_S = 0.1
"""The pause before batches are repeated, in seconds."""
INIT_PRODUCER_ID_VERSION = 4
BATCHES = ((1, 0), (1, 10), (1, 20_000), (2, 100), (3, 5000), (10, 10), (10, 1000))
"""The possible batches: the number of records, and the bytes of padding in each record."""
CODECS = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4)
UNDECIDED = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
"""The error codes after which it is unknown whether a batch was written."""
UNDECIDED_WHEN_REPLICATED = UNDECIDED | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
"""The same with several replicas: a leader that is replaced while a batch waits for followers refuses the batch."""


@dataclass
class PendingBatch:
    """A batch without a final response of the broker."""

    send: Send
    data: bytes
    response: PendingResponse[ProduceResponse] | None = None
    """The pending response on the current connection, or None with acks=0."""


class SimProducer:
    """A producer that writes to random partitions of `places` until `draining` is true.

    It is `done` once every batch has an outcome. Only an idempotent producer sends a batch again. `spread_s` is the
    longest pause between two batches of a burst, in seconds.
    """

    def __init__(
        self,
        name: str,
        dialer: Dialer,
        history: History,
        places: list[Place],
        wall_ms: Callable[[], int],
        *,
        idempotent: bool,
        acks: int,
        keyed: bool,
        undecided: frozenset[ErrorCode] = UNDECIDED,
        spread_s: float = 0,
    ) -> None:
        self.name, self._dialer, self._history, self._places = name, dialer, history, places
        self._wall_ms, self._dice = wall_ms, dialer.dice
        self._idempotent, self._acks, self._keyed, self._undecided = idempotent, acks, keyed, undecided
        self._producer_id, self._spread_s = -1, spread_s
        self._sequences = dict.fromkeys(places, 0)
        self._needs_epoch = idempotent
        self._pending: deque[PendingBatch] = deque()
        self._values = 0
        self.draining = False
        self.done = trio.Event()

    @property
    def waits(self) -> bool:
        """Whether a batch has no outcome yet."""
        return bool(self._pending)

    async def run(self) -> None:
        """Write batches until `draining` is true, then wait until every batch has an outcome."""
        done = False
        while not done:
            try:
                async with self._dialer.connected() as connection:
                    done = await self._session(connection)
            except LOST:
                if not self._idempotent:
                    self._pending.clear()
        self.done.set()

    async def _session(self, connection: SimConnection) -> bool:
        """Write on one connection, and return whether the producer is done.

        Raise an error of LOST if the connection is lost.
        """
        await self._repeat(connection)
        while not self._is_done():
            if not self.draining:
                await self._burst(connection)
            await self._settle_all(connection)
        return True

    async def _repeat(self, connection: SimConnection) -> None:
        """Send all batches without an outcome, in a new epoch if one is needed."""
        if self._needs_epoch:
            await self._init(connection)
        await connection.reach(self._places)
        for pending in self._pending:
            await self._send(connection, pending)
            await self._pause()

    async def _pause(self) -> None:
        """Wait a little between two batches, so that a broker may refuse one and take the next."""
        if self._spread_s:
            await trio.sleep(self._dice.uniform(0, self._spread_s))

    async def _settle_all(self, connection: SimConnection) -> None:
        """Record the responses, at random not all of them. Repeat the batches that the broker did not acknowledge."""
        refused = 0
        while refused < len(self._pending):
            oldest = self._pending[refused]
            assert oldest.response is not None
            if not self._settle(oldest, await connection.response(oldest.response)):
                refused += 1
                continue
            del self._pending[refused]
            if not refused and self._dice.random() < 0.5:
                return
        if refused:
            await trio.sleep(RETRY_S)
            await connection.refresh()
            await self._repeat(connection)

    async def _burst(self, connection: SimConnection) -> None:
        if not self._pending:
            await trio.sleep(self._dice.expovariate(1 / THINK_S))
        for _ in range(self._dice.randrange(IN_FLIGHT_MAX + 1 - len(self._pending))):
            await self._produce(connection)
            await self._pause()

    def _is_done(self) -> bool:
        return self.draining and not self._pending

    async def _init(self, connection: SimConnection) -> None:
        request = InitProducerIdRequest(transactional_id=None)
        answer = await connection.ask(request, INIT_PRODUCER_ID_VERSION)
        if answer.error_code:
            raise Again(ErrorCode(answer.error_code).name)
        self._producer_id, self._needs_epoch = answer.producer_id, False
        self._sequences = dict.fromkeys(self._places, 0)
        for pending in self._pending:
            place, count = pending.send.place, len(pending.send.values)
            pending.data = renumbered(pending.data, self._producer_id, self._sequences[place])
            self._sequences[place] += count

    async def _produce(self, connection: SimConnection) -> None:
        pending = self._new()
        self._history.sends.append(pending.send)
        if self._acks != ACKS_NONE:
            self._pending.append(pending)
        await self._send(connection, pending)

    def _new(self) -> PendingBatch:
        """Return a new batch with unique values."""
        dice, place = self._dice, self._dice.choice(self._places)
        builder = BatchBuilder(dice.choice(CODECS))
        if self._idempotent:
            builder.producer_id, builder.producer_epoch = self._producer_id, 0
            builder.base_sequence = self._sequences[place]
        values = []
        count, filling_bytes = dice.choice(BATCHES)
        for _ in range(count):
            self._values += 1
            value = f"{place[0]}-{place[1]}/{self.name}/{self._values} ".encode()
            values.append(value + dice.randbytes(filling_bytes))
            builder.append(value if self._keyed else None, values[-1], (), self._wall_ms())
        self._sequences[place] += len(values)
        return PendingBatch(Send(self.name, place, tuple(values)), builder.build())

    async def _send(self, connection: SimConnection, pending: PendingBatch) -> None:
        topic, partition = pending.send.place
        version = connection.any_version(ApiKey.PRODUCE)
        data = TopicProduceData(topic, connection.topic_id(topic), [PartitionProduceData(partition, pending.data)])
        request = ProduceRequest(acks=self._acks, timeout_ms=TIMEOUT_MS, topic_data=[data])
        if self._acks == ACKS_NONE:
            await connection.send(request, version)
        else:
            pending.response = connection.ask_nowait(request, version)

    def _settle(self, pending: PendingBatch, response: ProduceResponse) -> bool:
        """Record the broker's response to a batch, and return whether the batch was acknowledged.

        Raise Again if a producer that is not idempotent must give it up.
        """
        answer = response.responses[0].partition_responses[0]
        code, send = ErrorCode(answer.error_code), pending.send
        if code is ErrorCode.NONE:
            send.outcome, send.base_offset = SendOutcome.ACKNOWLEDGED, answer.base_offset
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._may_be_deleted(send):
            self._needs_epoch = True
        elif code not in self._undecided and code not in TEMPORARY:
            self._history.unexpected.append(f"{self.name} got {code.name} {answer.error_message}")
            if code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.draining = True
                self._pending.clear()
                raise Again(code.name)
            self._needs_epoch = True
        elif not self._idempotent:
            if code not in self._undecided:
                send.outcome = SendOutcome.REFUSED
            raise Again(code.name)
        return False

    def _may_be_deleted(self, send: Send) -> bool:
        """Whether the records of an earlier attempt may be deleted already, since none above them is acknowledged.

        A replica whose log began anew behind them leads without their sequences, and refuses them, as in Kafka.
        """
        acknowledged = (
            each.base_offset
            for each in self._history.sends
            if each.place == send.place and each.producer == self.name and each.outcome is SendOutcome.ACKNOWLEDGED
        )
        return self._history.deleted.get(send.place, 0) > max(acknowledged, default=0)


def renumbered(data: bytes, producer_id: int, sequence: int) -> bytes:
    """Return a batch as the first epoch of another producer id sends it."""
    batch = Batch.read(data)
    header = replace(batch, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return sealed(header, batch.payload)
