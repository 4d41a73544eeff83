"""The broker as a process: it says where it listens, ends when asked, and comes back on its port after a crash."""

from __future__ import annotations

from tools.smoke import count_apis


def test_a_broker_answers_and_ends_with_0_at_sigterm(broker):
    assert count_apis(broker.port) > 0
    assert broker.stop() == 0


def test_a_broker_in_memory_needs_no_directory(start_broker):
    assert count_apis(start_broker("--memory").port) > 0


def test_a_killed_broker_comes_back_on_its_port_and_directory(broker):
    port = broker.port
    broker.kill()
    broker.restart()
    assert broker.port == port
    assert count_apis(port) > 0
