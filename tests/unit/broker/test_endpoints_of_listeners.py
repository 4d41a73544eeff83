"""Tests of the endpoints that a node registers for its listeners."""

from __future__ import annotations

from pykbroker.broker.address import endpoints
from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.security.protocol import SecurityProtocol
from tests.unit.broker.bound_here import BoundHere


def test_an_endpoint_has_the_protocol_of_its_listener_and_the_advertised_or_the_bound_address() -> None:
    listeners = [
        ListenerSettings("A", Address("0.0.0.0", 0), Address("a.example", 0), SecurityProtocol.SASL_SSL),
        ListenerSettings("B", Address("127.0.0.1", 0), None, SecurityProtocol.SSL),
        ListenerSettings("C", Address("127.0.0.1", 0), Address("c.example", 3)),
    ]
    bound = {each.name: BoundHere("127.0.0.1", 10 + at) for at, each in enumerate(listeners)}
    assert endpoints(listeners, bound) == (
        Endpoint("A", "a.example", 10, 3),
        Endpoint("B", "127.0.0.1", 11, 1),
        Endpoint("C", "c.example", 3, 0),
    )
