"""The deletion of the oldest records by an operator: DeleteRecords, and retention by size and by time.

Before each request, `Stage.deleted` is raised to the offset below which it may delete. Retention has no such offset
until all brokers know that it has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import trio

from pykbroker.sim.client import TEMPORARY, Again, SimConnection
from pykbroker.sim.cluster.brief_topic import ANSWER_S_MAX, OF_CONTROLLERS
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.patience import holds
from pykbroker.sim.cluster.stage import ClusterStage
from pykbroker.sim.consumer import end_offset
from pykbroker.sim.history import Place
from pykbroker.sim.log_workload import SEGMENT_BYTES
from pykbroker.sim.producer import TIMEOUT_MS
from pykbroker.storage.segments.config import LogConfig
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC_RESOURCE, SET, DELETE = 2, 0, 1
"""The resource type of a topic, and two operations of IncrementalAlterConfigs."""
BYTES, TIME = "retention.bytes", "retention.ms"
DEFAULTS = LogConfig()
EVERYTHING = 2**62
"""An offset above all others, below which retention may delete while it is not known to have ended."""
RETENTION_S_MAX, RETENTION_MS_MAX = 2.0, 2000
"""The longest time for which retention is on, and the longest `retention.ms`."""
KNOWN_S_MAX, LOOK_S = 3.0, 0.05
"""The time in seconds to wait until all brokers know that retention has ended, and the time between two looks."""


class Deletions:
    """The deletions of records in some of `places`, whose workload knows about them."""

    def __init__(self, stage: ClusterStage, cluster: SimCluster, places: list[Place], dice: Random) -> None:
        self._stage, self._cluster, self.places, self._dice = stage, cluster, places, dice
        self._requested: dict[Place, int] = {}

    async def delete_records(self) -> None:
        """Delete the records of a partition below a random offset, often one inside a batch, or all of them."""
        if self.places:
            await self.delete_from(self._dice.choice(self.places))

    async def delete_from(self, place: Place, above: int = 0) -> None:
        """Delete the records of a partition below a random offset above `above`, if it has so many."""
        await self._ask(lambda connection: self._delete(connection, place, above))

    async def shrink_by_size(self) -> None:
        """Let retention keep at most a random number of bytes of each partition of a topic for some time."""
        await self._shrink(BYTES, self._dice.randrange(3 * SEGMENT_BYTES))

    async def shrink_by_time(self) -> None:
        """Let retention keep the records of the last second or two of a topic for some time."""
        await self._shrink(TIME, self._dice.randrange(1, RETENTION_MS_MAX))

    async def _delete(self, connection: SimConnection, place: Place, above: int) -> None:
        high_watermark = await end_offset(connection, place, committed=False)
        if high_watermark <= above:
            return
        offset = self._dice.choice((high_watermark, self._dice.randrange(above + 1, high_watermark + 1)))
        self._requested[place] = max(self._requested.get(place, 0), offset)
        self._stage.deleted[place] = max(self._stage.deleted.get(place, 0), offset)
        topic = DeleteRecordsTopic(place[0], [DeleteRecordsPartition(place[1], offset)])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        answer = await connection.ask(request, connection.any_version(ApiKey.DELETE_RECORDS))
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code in TEMPORARY:
            raise Again(code.name)
        if code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):  # a new leader's high watermark may be lower
            self._stage.unexpected.append(f"DeleteRecords of {place} got {code.name}")

    async def _shrink(self, config: str, value: int) -> None:
        if not self.places:
            return
        topic = self._dice.choice(sorted({place[0] for place in self.places}))
        places = [place for place in self.places if place[0] == topic]
        before = {place: self._stage.deleted.get(place, 0) for place in places}
        self._stage.deleted.update(dict.fromkeys(places, EVERYTHING))
        await self._ask(lambda connection: alter(connection, topic, AlterableConfig(config, SET, str(value))))
        await trio.sleep(self._dice.uniform(0, RETENTION_S_MAX))
        if await self._ask(lambda connection: alter(connection, topic, AlterableConfig(config, DELETE, None))):
            await self._note_end(config, places, before)

    async def _note_end(self, config: str, places: list[Place], before: dict[Place, int]) -> None:
        """Lower the offsets below which records may be gone to what the brokers have then, if all of them serve."""
        if await holds(lambda: all(self._has_default(config, place) for place in places), KNOWN_S_MAX, LOOK_S):
            for place in places:
                self._stage.deleted[place] = max(before[place], self._requested.get(place, 0), *self._starts(place))

    def _has_default(self, config: str, place: Place) -> bool:
        """Whether all replicas of a partition are served, and know that a config has its default again."""
        name = config.replace(".", "_")
        logs = [replica.log for node_id in self._cluster.nodes if (replica := self._cluster.replica(node_id, place))]
        return len(logs) >= self._replicas(place) and all(
            log is not None and getattr(log.config, name) == getattr(DEFAULTS, name) for log in logs
        )

    def _replicas(self, place: Place) -> int:
        placed = self._cluster.placed(place)
        return len(self._cluster.nodes) + 1 if placed is None else len(placed.replicas)

    def _starts(self, place: Place) -> list[int]:
        """Return the log start offsets of all replicas of a partition."""
        replicas = [self._cluster.replica(node_id, place) for node_id in self._cluster.nodes]
        return [0, *(one.log.log_start_offset for one in replicas if one is not None and one.log is not None)]

    async def _ask(self, request: Callable[[SimConnection], Awaitable[None]]) -> bool:
        """Send a request until a broker answers. Return whether it has in time."""
        with trio.move_on_after(ANSWER_S_MAX) as late:
            await self._stage.until_answered(request)
        return not late.cancelled_caught


async def alter(connection: SimConnection, topic: str, config: AlterableConfig) -> None:
    """Change a config of a topic. Raise an error of LOST."""
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC_RESOURCE, topic, [config])])
    answer = await connection.ask(request, connection.any_version(ApiKey.INCREMENTAL_ALTER_CONFIGS))
    code = ErrorCode(answer.responses[0].error_code)
    if code in TEMPORARY or code in OF_CONTROLLERS:
        raise Again(code.name)
    assert code is ErrorCode.NONE, code.name
