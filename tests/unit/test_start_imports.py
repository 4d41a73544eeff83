"""Tests of what a broker with a controller of its own leaves until it is needed, so that a start is fast and small."""

from __future__ import annotations

import subprocess
import sys

STARTED = """
import sys
import pykbroker.cli.start.options, pykbroker.cli.start.run
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
    "pykbroker.cli.new_users",
    "pykbroker.cli.start.own_certificates",
    "pykbroker.cli.start.users",
    "pykbroker.client.login",
    "pykbroker.core.config.docs",
    "pykbroker.core.config.tls_settings",
    "pykbroker.core.security.acl.authorizer",
    "pykbroker.core.security.sasl.client",
    "pykbroker.core.security.sasl.login",
    "pykbroker.core.security.sasl.settings",
    "pykbroker.core.security.start_configs",
    "pykbroker.quorum.observer",
    "pykbroker.quorum.observer_log",
    "pykbroker.quorum.observer_start",
    "pykbroker.quorum.remote_controller",
    "pykbroker.server.login.logins",
    "pykbroker.tls",
    "pykbroker.world.system_tls_pump",
}


def test_a_start_imports_and_computes_nothing_that_only_other_brokers_or_requests_need() -> None:
    ran = subprocess.run([sys.executable, "-c", STARTED], check=True, capture_output=True, text=True, timeout=50)
    computed, *imported = ran.stdout.split()
    assert "pykbroker.quorum.controller" in imported
    assert LATER.intersection(imported) == set()
    assert computed == "0"
