"""A group of many classic members: all join at once, then one leaves, and the others get new assignments."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from tools.bench.members import Member, close, settle
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows import groups
from tools.bench.rows.steps import watched

MEMBERS = 500


def join_and_leave(stage: Stage) -> Mapping[str, float] | None:
    """Measure the time of both rebalances.

    pykbroker runs in a process of its own, so that the counted event-loop steps belong to this row only.
    """
    if not stage.peer.durable:
        return None
    with watched(stage) as (broker, counted), Topic(broker) as topic:
        groups.settle(Stage(stage.peer, broker, stage.scratch))
        group = uuid.uuid4().hex
        members = [Member(broker.port, group, topic.name) for _ in range(MEMBERS)]
        try:
            begun = time.perf_counter()
            for member in members:
                member.join()
            settle(members)
            joined = time.perf_counter()
            leaver = next(member for member in reversed(members) if member.is_idle)
            leaver.leave()
            settle([member for member in members if member is not leaver], leaver.generation)
            left = time.perf_counter()
        finally:
            close(members)
        figures = {"join": (joined - begun) * 1000, "leave": (left - joined) * 1000}
        return {**figures, "step": counted()["loop_step_longest_seconds"] * 1000} if counted else figures


FIGURES = {
    "join": Figure("ms to join", digits=0),
    "leave": Figure("ms after one leaves", digits=0),
    "step": Figure("longest step ms", digits=1),
}
ROWS = (Row(f"group of {MEMBERS} classic members", FIGURES, join_and_leave),)
