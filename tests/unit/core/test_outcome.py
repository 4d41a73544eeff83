"""Tests that groups, transactions and metadata match the Protocol `Machine`."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest

from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.now import Now
from pykbroker.core.outcome import Machine, Outcome
from pykbroker.core.txn.machine import TransactionsMachine
from pykbroker.core.txn.settings import TransactionSettings
from tests.unit.core.metadata.harness import ControllerHarness
from tests.unit.core.txn.harness import Ids

GROUPS: Machine[Any, Any, Any, Any] = GroupMachine(GroupSettings(), Random(1))
TRANSACTIONS: Machine[Any, Any, Any, Any] = TransactionsMachine(TransactionSettings(lambda: 2), Ids())
METADATA: Machine[Any, Any, Any, Any] = ControllerHarness().machine


@pytest.mark.parametrize("machine", [GROUPS, TRANSACTIONS, METADATA])
def test_a_state_machine_with_an_empty_log_writes_no_records_when_it_is_loaded(
    machine: Machine[Any, Any, Any, Any],
) -> None:
    assert machine.deadline_ms == inf
    assert machine.loaded(Now(5, 1000)) == Outcome()
    assert machine.deadline_ms >= 5
    assert machine.tick(Now(5, 1000)) == Outcome()
