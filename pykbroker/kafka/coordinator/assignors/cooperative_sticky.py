"""The assignor that moves few partitions, and stops only those that move (KIP-429), under kafka-python's name."""

from __future__ import annotations

from pykbroker.core.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor as CooperativeStickyAssignor
