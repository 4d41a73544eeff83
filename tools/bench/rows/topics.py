"""Creation of many topics in few requests."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from tools.bench import frames
from tools.bench.row import Figure, Row, Stage

TOPICS = 1_000
TOPICS_PER_REQUEST = 100


def create(stage: Stage) -> Mapping[str, float]:
    """Create `TOPICS` topics of one partition, in requests for `TOPICS_PER_REQUEST`. Their deletion is not measured."""
    run = uuid.uuid4().hex[:8]
    names = [f"bench-{run}-{index}" for index in range(TOPICS)]
    chunks = [names[start : start + TOPICS_PER_REQUEST] for start in range(0, TOPICS, TOPICS_PER_REQUEST)]
    with frames.Caller(stage.broker.port) as caller:
        begun = time.perf_counter()
        replies = [caller.call(frames.create_topics(chunk, 1)) for chunk in chunks]
        seconds = time.perf_counter() - begun
        for chunk in chunks:
            caller.call(frames.delete_topics(chunk))
    if any(error for reply in replies for error in frames.create_topics_errors(reply)):
        raise RuntimeError("not all topics were created")
    return {"seconds": seconds}


ROWS = (Row("create 1,000 topics", {"seconds": Figure("s")}, create),)
