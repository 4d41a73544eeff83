"""Tests of the endpoints of brokers for each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.broker.inter_broker_endpoints import InterBrokerEndpoints
from pykbroker.core.metadata.image import BrokerImage, Endpoint

INSIDE, OUTSIDE = Endpoint("INTERNAL", "inside", 1), Endpoint("PLAINTEXT", "outside", 2)


def broker(broker_id: int, *endpoints: Endpoint, fenced: bool = False) -> BrokerImage:
    return BrokerImage(id=broker_id, incarnation_id=b"", epoch=1, endpoints=endpoints, fenced=fenced)


def endpoints_of(*brokers: BrokerImage) -> InterBrokerEndpoints:
    image: Any = SimpleNamespace(cluster=SimpleNamespace(brokers={one.id: one for one in brokers}))
    return InterBrokerEndpoints(lambda: image, "INTERNAL")


def test_the_endpoint_has_the_name_of_the_inter_broker_listener(caplog: pytest.LogCaptureFixture) -> None:
    endpoints = endpoints_of(broker(1, OUTSIDE, INSIDE, fenced=False), broker(2, OUTSIDE, INSIDE, fenced=True))
    assert [endpoints.registered(broker_id) for broker_id in (1, 2, 3)] == [INSIDE, INSIDE, None]
    assert [endpoints.live(broker_id) for broker_id in (1, 2, 3)] == [INSIDE, None, None]
    assert not caplog.records


def test_each_broker_without_the_listener_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    endpoints = endpoints_of(broker(1, OUTSIDE), broker(2, OUTSIDE), broker(3, OUTSIDE, fenced=True))
    for _ in range(3):
        assert endpoints.registered(1) is endpoints.live(2) is endpoints.live(3) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    first, second = caplog.messages
    assert first.startswith("broker 1 has no listener INTERNAL (its listeners: PLAINTEXT): ")
    assert second.startswith("broker 2 has no listener INTERNAL")
