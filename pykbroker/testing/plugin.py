"""The pytest plugin, which pytest finds by its entry point."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykbroker.testing.running import RunningBroker, running_broker


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[RunningBroker]:
    """Provide a Kafka broker for the whole session: `.bootstrap` is its address, `.topic()` creates a topic."""
    with running_broker() as broker:
        yield broker
