"""A fixture of connections to controllers: scripted nodes on a network in memory."""

from __future__ import annotations

from typing import Any

import pytest
import trio.testing

from tests.unit.client.conftest import Client, started


@pytest.fixture
async def client(autojump_clock: trio.testing.MockClock, nursery: Any) -> Client:
    """Return a client of a cluster of three nodes that are up."""
    return started(nursery)
