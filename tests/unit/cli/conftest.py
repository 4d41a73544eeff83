"""A broker for the tests of commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykbroker.testing.running import running_broker

CONFIGS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """Return the address of a broker that the tests of one file share."""
    with running_broker(configs=CONFIGS) as run:
        yield run.bootstrap
