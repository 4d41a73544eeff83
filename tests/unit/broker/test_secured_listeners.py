"""Tests of the reload of stores when a config or a file changes, and of what is refused or warned about at a start."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from pykbroker.broker.secured_listeners import LOOK_S, SecuredListeners
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.settings import Settings
from pykbroker.server.listener_tls import ListenerTls
from tests.unit.tls.test_context import NOW, House, chain_of, issued, key_of
from wire.error_codes import ErrorCode

SECURE = ListenerSettings("SECURE", protocol=SecurityProtocol.SSL)
PREFIX = "listener.name.secure."


class Clocks(msgspec.Struct):
    """The clocks of a machine."""

    def wall_ms(self) -> int:
        return int(NOW.timestamp() * 1000)

    def ticks_ns(self) -> int:
        return 0


class Broker:
    """A broker with one listener, whose configs and files a test changes."""

    def __init__(self, house: House, listener: ListenerSettings = SECURE, **settings: Any) -> None:
        self.house = house
        world: Any = Clocks()
        self.secured = SecuredListeners(Settings(self.config, (), (listener,), "SECURE", **settings), world)

    @property
    def config(self) -> BrokerConfig:
        return BrokerConfig.from_mapping({"node.id": "1", **self.house.texts})

    @property
    def tls(self) -> ListenerTls:
        tls = self.secured.of("SECURE")
        assert tls is not None
        return tls

    @property
    def hosts(self) -> set[str]:
        """Return the hosts of the certificate that a new connection gets."""
        return {*self.tls.made.certificate.hosts}

    def write(self, host: str) -> None:
        """Replace the keystore by one with a certificate for this host."""
        self.house.pem(key_of(issued(host=host)) + chain_of(issued(host=host)))


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path).pem(key_of(issued()) + chain_of(issued()))
    return house.set(allow_dn_changes="true", allow_san_changes="true")


async def test_a_changed_file_is_read_again_after_a_while(
    house: House, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(house)
    open_before = broker.tls.made.context
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.secured.run, lambda: broker.config)
        await trio.sleep(2 * LOOK_S)
        assert broker.tls.made.context is open_before
        broker.write("broker2")
        with caplog.at_level(logging.INFO):
            await trio.sleep(2 * LOOK_S)
        nursery.cancel_scope.cancel()
    assert broker.hosts == {"broker2"}
    assert "SECURE: new connections get the certificate of " in caplog.text


def test_a_changed_config_is_applied_and_one_of_the_listener_comes_first(house: House) -> None:
    broker = Broker(house)
    other = house.write("other.pem", key_of(issued(host="b")) + chain_of(issued(host="b")))
    house.texts |= {f"{PREFIX}ssl.keystore.location": other, f"{PREFIX}ssl.keystore.type": "PEM"}
    broker.secured.look(broker.config)
    assert broker.hosts == {"b"}


@pytest.mark.parametrize("content", ["", "-----BEGIN"])
def test_a_wrong_file_leaves_the_old_context_and_one_log_line(
    house: House, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(house)
    house.pem(content)
    for _ in range(3):
        broker.secured.look(broker.config)
    assert broker.hosts == {"localhost"}
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.endswith("New connections are served as before")
    assert "broker.pem: there is no" in line
    broker.write("mended")
    broker.secured.look(broker.config)
    assert broker.hosts == {"mended"}


def test_wrong_configs_leave_the_old_context_and_one_log_line(house: House, caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(house)
    house.set(client_auth="required")
    for _ in range(3):
        broker.secured.look(broker.config)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert broker.hosts == {"localhost"}


def test_configs_that_could_not_be_used_are_refused_and_change_nothing(house: House) -> None:
    broker = Broker(house)
    before = broker.tls.made
    broker.secured.check({**broker.config.texts, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"})
    for wrong in ({"ssl.keystore.location": "/nowhere"}, {"ssl.client.auth": "required"}):
        with pytest.raises(ApiError, match=r"SECURE: ssl\.") as refused:
            broker.secured.check({**broker.config.texts, **wrong})
        assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert broker.tls.made is before


@pytest.mark.parametrize(
    ("may", "sentence"), [("dn", "the certificate is not for localhost"), ("san", "the certificate is of OU=")]
)
def test_another_name_or_fewer_hosts_are_refused_unless_allowed(
    house: House, may: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    house.texts["ssl.allow.dn.changes"] = str(may == "dn").lower()
    house.texts["ssl.allow.san.changes"] = str(may == "san").lower()
    broker = Broker(house)
    broker.write("broker2")
    broker.secured.look(broker.config)
    assert broker.hosts == {"localhost"}
    assert sentence in caplog.text


@pytest.mark.parametrize(("host", "warns"), [("localhost", False), ("broker2", True), ("", False)])
def test_a_certificate_without_the_advertised_name_is_warned_about(
    house: House, host: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    advertised = Address(host, 9093) if host else None
    Broker(house, msgspec.structs.replace(SECURE, advertised=advertised))
    assert ("the certificate is not for broker2, the advertised host" in caplog.text) == warns


def test_a_listener_without_tls_needs_none_and_brokers_cannot_connect_with_tls(house: House) -> None:
    plain = Broker(House(Path()), ListenerSettings("PLAINTEXT"))
    assert plain.secured.of("PLAINTEXT") is None
    with pytest.raises(StartError, match="brokers connect to each other without TLS"):
        Broker(house, quorum=(Address("h", 1),))
