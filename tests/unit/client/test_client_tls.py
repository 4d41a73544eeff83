"""Tests of outgoing connections over TLS: whom they trust, what they show, and which host they expect."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio

from pykbroker.client.client_tls import ClientTls
from pykbroker.client.errors import AuthenticationError
from pykbroker.client.tls_hints import TlsHints
from pykbroker.core.config.listener_configs import ListenerConfigs
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import client_tls_settings
from pykbroker.core.errors import StartError
from pykbroker.tls.context import client_context
from tests.unit.tls.test_context import NOW, House, ca_pem, chain_of, issued, key_of
from tests.unit.world.local_network import Line, LocalNetwork, echo, served
from tests.unit.world.tls_ends import TestTls, server_context


class Asking(Line):
    """A line of a client, whose errors the test gets from `connect`."""

    def fail(self, error: AuthenticationError) -> None:
        """Do nothing."""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def context(house: House) -> ssl.SSLContext:
    configs = ListenerConfigs(house.texts, ListenerSettings("CLIENT"))
    return client_context(client_tls_settings("client.properties", configs), NOW.timestamp())


async def connect(house: House, host: str, asks: ssl.VerifyMode = ssl.CERT_NONE) -> list[bytes | None]:
    """Connect to a broker with a certificate for localhost, and return the certificates that it was shown."""
    tls = TestTls(server_context(asks=asks))
    async with served(echo, tls=tls) as network:
        line = await opened(network, house, host)
        line.out.append(b"ping\n")
        line.pump.flush()
        with trio.fail_after(10):
            await line.reported.wait()
    return tls.certificates


async def opened(network: LocalNetwork, house: House, host: str) -> Line:
    """Connect with a check of the certificate for this host."""
    port = network.bound.port
    tls = ClientTls(context(house), host, port, TlsHints())
    return await network.net.connect("127.0.0.1", port, lambda peer, pump: Asking(peer, pump, answered), -1, tls)


async def refusal(house: House, host: str) -> str:
    """Return why a connection is refused."""
    async with served(echo, tls=TestTls(server_context())) as network:
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            await opened(network, house, host)
    return refused.value.verify_message


def answered(line: Line, data: bytes) -> None:
    assert data == b"ping"
    line.reported.set()


async def test_a_client_trusts_its_truststore_and_shows_its_keystore(house: House) -> None:
    house.set(truststore_type="PEM", truststore_certificates=ca_pem())
    assert await connect(house, "localhost") == [None]
    house.pem(key_of(issued()) + chain_of(issued()))
    (certificate,) = await connect(house, "localhost", ssl.CERT_REQUIRED)
    assert certificate is not None


async def test_a_broker_of_another_authority_or_host_is_refused(house: House) -> None:
    assert "certificate" in await refusal(house, "localhost")
    house.set(truststore_type="PEM", truststore_certificates=ca_pem())
    assert "Hostname mismatch" in await refusal(house, "elsewhere")
    house.set(endpoint_identification_algorithm="HTTPS")
    assert "Hostname mismatch" in await refusal(house, "elsewhere")
    house.set(endpoint_identification_algorithm="")
    assert await connect(house, "elsewhere") == [None]


def test_wrong_configs_name_their_place(house: House) -> None:
    house.set(endpoint_identification_algorithm="none")
    with pytest.raises(StartError, match="algorithm=none is unknown: write https, or nothing to accept any host"):
        context(house)
    house.set(endpoint_identification_algorithm="https")
    house.set(truststore_type="PEM", truststore_location="/nowhere")
    with pytest.raises(StartError, match=r"client\.properties: ssl\.truststore\.location=/nowhere: No such file"):
        context(house)
