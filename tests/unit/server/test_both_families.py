"""A listener on all interfaces serves clients of IPv4 and of IPv6, each with the addresses of its own family."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from tests.unit.apis.conftest import serving
from wire.messages.metadata import MetadataRequest


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
async def test_each_client_gets_an_address_of_its_family_and_ipv4_clients_are_limited_as_such(
    tmp_path: Path, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    listeners = (ListenerSettings(address=Address(host, 0)),)
    limits = {"max_connections_per_ip_overrides": "127.0.0.1:1"}
    async with serving(tmp_path, listeners=listeners, **limits) as local_broker:
        assert local_broker.serving.host == host
        for client_host in ("127.0.0.1", "::1"):
            address = Address(client_host, local_broker.serving.port)
            client = await local_broker.connect_to(address)
            (broker,) = (await client.call(MetadataRequest(topics=[]), 12)).brokers
            assert (broker.host, broker.port) == address
        refused = await local_broker.connect_to(Address("127.0.0.1", local_broker.serving.port))
        assert await refused.closed()
    assert "::ffff:" not in caplog.text
