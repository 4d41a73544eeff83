"""The type of a state machine that a coordinator hosts, of groups or of transactions."""

from __future__ import annotations

from typing import Any

from pykbroker.core.coordinator.record import LogRecord, StoredRecord
from pykbroker.core.outcome import Machine

CoordinatorMachine = Machine[Any, LogRecord, StoredRecord, Any]
