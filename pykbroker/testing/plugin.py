"""The pytest plugin, which pytest finds by its entry point."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykbroker.testing.running import RunningBroker, running_broker
from pykbroker.world.shadowing import require_ours


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """Provide a Kafka broker for the whole session: `.bootstrap` is its address, `.topic()` creates a topic."""
    require_ours({item.path.parent for item in request.session.items})
    with running_broker() as broker:
        yield broker
