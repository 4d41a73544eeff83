"""The nursery of the tests of log-ins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.server.login.client import Unrun


@pytest.fixture
def unrun() -> Iterator[Unrun]:
    tasks = Unrun()
    yield tasks
    tasks.clear()
