"""Tests of what a broker with a controller of its own leaves until it is needed, so that a start is fast and small."""

from __future__ import annotations

import subprocess
import sys

STARTED = """
import sys
from pykbroker.testing import running_broker
with running_broker():
    pass
from wire.records.columns import low_offsets
print(low_offsets.cache_info().currsize, *sys.modules)
"""
LATER = {
    "cramjam",
    "re2",
    "pykbroker.apis.cluster.describe_log_dirs",
    "pykbroker.apis.configs",
    "pykbroker.apis.groups",
    "pykbroker.apis.security",
    "pykbroker.apis.transactions",
    "pykbroker.broker.secured_listener",
    "pykbroker.client.login",
    "pykbroker.core.config.docs",
    "pykbroker.core.security.sasl.client",
    "pykbroker.quorum.observer",
    "pykbroker.quorum.observer_log",
    "pykbroker.quorum.observer_start",
    "pykbroker.quorum.remote_controller",
    "pykbroker.tls",
    "pykbroker.world.system_tls_pump",
}


def test_a_start_imports_and_computes_nothing_that_only_other_brokers_or_requests_need() -> None:
    ran = subprocess.run([sys.executable, "-c", STARTED], check=True, capture_output=True, text=True, timeout=50)
    computed, *imported = ran.stdout.split()
    assert "pykbroker.quorum.controller" in imported
    assert LATER.intersection(imported) == set()
    assert computed == "0"
