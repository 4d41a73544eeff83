"""Tests of the reload of stores when a config or a file changes, and of what is refused or warned about at a start."""

from __future__ import annotations

import logging
import ssl
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio

from pykbroker.broker.secured_listeners import LOOK_S, SecuredListeners
from pykbroker.client.errors import AuthenticationError
from pykbroker.client.security import PLAINTEXT
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import TLS12, TLS13
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.sasl.settings import SCRAM_MODULE
from pykbroker.core.settings import Settings
from pykbroker.server.listener_tls import ListenerTls
from tests.unit.tls.test_context import NOW, House, ca_pem, chain_of, issued, key_of
from tests.unit.world.tls_ends import CURVE, authority
from wire.error_codes import ErrorCode

OTHERS = (Address("h", 1),)
SECURE = ListenerSettings("SECURE", Address("localhost", 0), protocol=SecurityProtocol.SSL)
PREFIX = "listener.name.secure."


class Machine(msgspec.Struct):
    """The clocks of a machine, and its threads."""

    meanwhile: list[Any] = []
    calls: int = 0
    """The number of functions that were called off the event loop."""
    days: int = 0
    """The days that have passed."""

    def wall_ms(self) -> int:
        return int((NOW + timedelta(days=self.days)).timestamp() * 1000)

    def ticks_ns(self) -> int:
        return 0

    async def off_loop(self, function: Any, *args: Any) -> Any:
        """Call a function, and let a file or the config change meanwhile."""
        self.calls += 1
        found = function(*args)
        while self.meanwhile:
            await self.meanwhile.pop()()
        return found

    @property
    def rng(self) -> Random:
        return Random(1)


class Broker:
    """A broker with one listener, whose configs and files a test changes."""

    def __init__(self, house: House, listener: ListenerSettings = SECURE, **settings: Any) -> None:
        self.house = house
        self.machine = Machine()
        world: Any = self.machine
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

    async def look(self) -> None:
        """Look at the files and the configs."""
        await self.secured.look(lambda: self.config)

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


async def test_a_changed_config_is_applied_and_one_of_the_listener_comes_first(house: House) -> None:
    broker = Broker(house)
    other = house.write("other.pem", key_of(issued(host="b")) + chain_of(issued(host="b")))
    house.texts |= {f"{PREFIX}ssl.keystore.location": other, f"{PREFIX}ssl.keystore.type": "PEM"}
    await broker.look()
    assert broker.hosts == {"b"}


@pytest.mark.parametrize("controllers", [(), (ListenerSettings("CONTROLLER"),)])
@pytest.mark.parametrize("content", ["", "-----BEGIN"])
async def test_a_wrong_file_leaves_the_old_context_and_one_log_line(
    house: House, content: str, controllers: tuple[ListenerSettings, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Check that of a listener of clients, and of one to which this broker also connects."""
    house.set(truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    broker = Broker(house, controller_listeners=controllers)
    house.pem(content)
    for _ in range(3):
        await broker.look()
    assert broker.hosts == {"localhost"}
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.endswith("New connections are served as before")
    assert "broker.pem: there is no" in line
    broker.write("mended")
    await broker.look()
    assert broker.hosts == {"mended"}


@pytest.mark.parametrize(
    ("name", "text"),
    [(f"{PREFIX}ssl.keystore.type", "x"), ("ssl.keystore.location", "a\0"), ("ssl.truststore.certificates", "x")],
)
async def test_wrong_configs_leave_the_old_context_and_one_log_line(
    house: House, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(house, controller_listeners=(ListenerSettings("CONTROLLER"),))
    house.texts[name] = text
    for _ in range(3):
        await broker.look()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert broker.hosts == {"localhost"}


async def test_configs_that_could_not_be_used_are_refused_and_change_nothing(house: House) -> None:
    broker = Broker(house)
    before = broker.tls.made
    for wrong in ({"ssl.keystore.location": "/nowhere"}, {"ssl.keystore.type": "JKS"}):
        with pytest.raises(ApiError, match=r"SECURE: ssl\.") as refused:
            await broker.secured.check({**broker.config.texts, **wrong})
        assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert broker.tls.made is before
    assert broker.machine.calls == 2


@pytest.mark.parametrize("prefix", ["", PREFIX])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.client.auth", "none"),
        ("ssl.enabled.protocols", "TLSv1.2"),
        ("ssl.cipher.suites", "unknown"),
        ("ssl.principal.mapping.rules", "wrong"),
        ("ssl.allow.dn.changes", "false"),
        ("ssl.endpoint.identification.algorithm", "x"),
    ],
)
async def test_an_open_listener_keeps_all_but_its_stores_as_in_kafka(
    house: House, prefix: str, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    house.set(client_auth="required", truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    broker = Broker(house, controller_listeners=(ListenerSettings("CONTROLLER"),))
    house.texts[prefix + name] = text
    await broker.secured.check({**broker.config.texts})
    broker.write("broker2")
    await broker.look()
    assert (broker.hosts, caplog.records) == ({"broker2"}, [])
    now = broker.tls.settings
    kept = "required", frozenset({TLS12, TLS13}), (), True
    assert (now.client_auth, now.versions, now.ciphers, now.may_change_name) == kept


@pytest.mark.parametrize(
    ("may", "sentence"), [("dn", "the certificate is not for localhost"), ("san", "the certificate is of OU=")]
)
async def test_another_name_or_fewer_hosts_are_refused_unless_allowed(
    house: House, may: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    house.texts["ssl.allow.dn.changes"] = str(may == "dn").lower()
    house.texts["ssl.allow.san.changes"] = str(may == "san").lower()
    broker = Broker(house)
    broker.write("broker2")
    await broker.look()
    assert broker.hosts == {"localhost"}
    assert sentence in caplog.text


@pytest.mark.parametrize(
    ("bound", "advertised", "warns"),
    [
        ("0.0.0.0", "localhost", False),
        ("0.0.0.0", "broker2", True),
        ("0.0.0.0", None, False),
        ("localhost", None, False),
        ("broker2", None, True),
        ("broker2", "localhost", False),
    ],
)
def test_a_certificate_without_the_name_to_which_clients_connect_is_warned_about(
    house: House, bound: str, advertised: str | None, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    to = None if advertised is None else Address(advertised, 9093)
    Broker(house, msgspec.structs.replace(SECURE, address=Address(bound, 9093), advertised=to))
    assert ("the certificate is not for broker2, the host to which clients connect" in caplog.text) == warns


@pytest.mark.parametrize("quorum", [(), OTHERS])
def test_a_listener_without_tls_needs_none(quorum: tuple[Address, ...]) -> None:
    secured = Broker(House(Path()), ListenerSettings("SECURE"), quorum=quorum).secured
    assert secured.of("SECURE") is None
    assert (secured.to_brokers, secured.to_controllers) == (PLAINTEXT, PLAINTEXT)


def test_only_a_node_that_connects_to_controllers_has_configs_for_that(house: House) -> None:
    house.texts["listener.security.protocol.map"] = "SECURE:SSL,CONTROLLER:SASL_SSL"
    assert Broker(house).secured.to_brokers == PLAINTEXT
    leader = Broker(house, controller_listeners=(ListenerSettings("CONTROLLER"),)).secured
    assert leader.to_brokers.tls is not None
    assert leader.to_controllers == PLAINTEXT
    with pytest.raises(StartError, match="sasl.mechanism.controller.protocol=GSSAPI"):
        Broker(house, quorum=OTHERS)


async def test_new_connections_to_other_nodes_use_changed_stores(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.set(truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    house.texts["listener.security.protocol.map"] = "CONTROLLER:SSL"
    broker = Broker(house, quorum=OTHERS)
    contexts = broker.secured.to_brokers.tls, broker.secured.to_controllers.tls
    assert all(context is not None and len(context().get_ca_certs()) == 1 for context in contexts)
    house.write("ca.pem", ca_pem() + authority("others").cert_pem.bytes().decode())
    with caplog.at_level(logging.INFO):
        await broker.look()
    assert all(context is not None and len(context().get_ca_certs()) == 2 for context in contexts)
    assert "connections to CONTROLLER: new ones use the stores as they are now" in caplog.text
    house.write("ca.pem", "-----BEGIN")
    await broker.look()
    assert all(context is not None and len(context().get_ca_certs()) == 2 for context in contexts)
    wrong = {"listener.name.controller.ssl.truststore.location": "/nowhere"}
    mended = {f"{PREFIX}ssl.truststore.location": house.write("mended.pem", ca_pem())}
    with pytest.raises(ApiError, match="connections to CONTROLLER: ssl.truststore"):
        await broker.secured.check({**broker.config.texts, **wrong, **mended})


def test_a_node_with_the_certificate_of_another_host_is_named_with_the_config_that_has_its_address(
    house: House,
) -> None:
    house.set(truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    house.texts["listener.security.protocol.map"] = "CONTROLLER:SSL"
    secured = Broker(house, quorum=OTHERS).secured
    other = ssl.SSLCertVerificationError(1, "refused")
    other.verify_code = 62
    for security, advice in (
        (secured.to_brokers, "set advertised.listeners of the other node to a host that its certificate has"),
        (
            secured.to_controllers,
            "name a host that the certificate has in controller.quorum.bootstrap.servers, and in advertised.listeners"
            " of the controller",
        ),
    ):
        tls = security.tls_of("node2", 9092)
        assert tls is not None
        assert str(tls.refusal(other)) == f"node2:9092: the broker's certificate is not for node2: {advice}"


def test_a_listener_without_tls_is_named_with_the_config_of_its_protocol(house: House) -> None:
    tls = Broker(house, controller_listeners=(ListenerSettings("CONTROLLER"),)).secured.to_brokers.tls_of("node2", 9092)
    assert tls is not None
    assert str(tls.ended()).endswith(
        "the broker does not answer by TLS: correct the protocol of SECURE in listener.security.protocol.map, here or"
        " there"
    )


def test_a_refusal_between_nodes_is_one_log_line_that_says_what_to_do(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.texts |= {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        f"{PREFIX}scram-sha-256.sasl.jaas.config": f'{SCRAM_MODULE} required username="node" password="canary";',
    }
    listener = msgspec.structs.replace(SECURE, protocol=SecurityProtocol.SASL_SSL)
    broker = Broker(house, listener, controller_listeners=(ListenerSettings("CONTROLLER"),))
    security = broker.secured.to_brokers
    tls = security.tls_of("node2", 9092)
    assert tls is not None
    assert security.sasl is not None
    assert security.sasl.name == "SCRAM-SHA-256"
    stranger = ssl.SSLCertVerificationError(1, "refused")
    stranger.verify_code, stranger.verify_message = 19, "self-signed certificate"
    for _ in range(3):
        security.on_refused(AuthenticationError("node1:9092: no", ErrorCode.SASL_AUTHENTICATION_FAILED))
        security.on_refused(tls.refusal(stranger))
    tries = "SECURE: this node cannot connect to another, and tries again: "
    assert [record.getMessage() for record in caplog.records] == [
        f"{tries}node1:9092: no: correct username and password in {PREFIX}scram-sha-256.sasl.jaas.config, or add the"
        " user node to the users of the other node",
        f"{tries}node2:9092: the broker's certificate is refused (self-signed certificate): trust the authority that"
        f" has signed it, by {PREFIX}ssl.truststore.location",
    ]


async def test_a_look_that_waits_for_another_one_sees_the_config_of_its_end(house: House) -> None:
    broker = Broker(house)
    async with trio.open_nursery() as nursery:

        async def change() -> None:
            broker.write("b")
            nursery.start_soon(broker.look)
            await trio.testing.wait_all_tasks_blocked()
            broker.write("c")

        broker.machine.meanwhile.append(change)
        broker.write("a")
        await broker.look()
        assert broker.hosts == {"a"}
    assert broker.hosts == {"c"}


async def test_stores_with_which_brokers_would_refuse_each_other_are_refused_as_by_kafka(house: House) -> None:
    theirs = authority("others").issue_cert("localhost", key_type=CURVE)
    others_ca = authority("others").cert_pem.bytes().decode()
    keystore = {"ssl.keystore.location": house.write("new.pem", key_of(theirs) + chain_of(theirs))}
    only_new = {"ssl.truststore.location": house.write("new-ca.pem", others_ca)}
    both = {"ssl.truststore.location": house.write("both.pem", ca_pem() + others_ca)}
    house.set(truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    house.texts["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT"
    await Broker(house).secured.check({**house.texts, **keystore, **only_new})  # no other broker connects to it
    broker = Broker(house, quorum=OTHERS)
    for changed, name in ((keystore, "SECURE"), (only_new, "connections to SECURE"), ({**keystore, **both}, "SECURE")):
        with pytest.raises(ApiError, match=f"^{name}: brokers with the old stores and brokers with the new ones"):
            await broker.secured.check({**house.texts, **changed})
    house.texts |= both
    await broker.look()
    await broker.secured.check({**house.texts, **keystore})


async def test_stores_that_were_refused_are_used_once_the_other_end_trusts_them(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.set(truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    house.texts["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT"
    broker, theirs = Broker(house, quorum=OTHERS), authority("others").issue_cert("localhost", key_type=CURVE)
    before = broker.tls.made
    house.write("ca.pem", ca_pem() + authority("others").cert_pem.bytes().decode())
    house.pem(key_of(theirs) + chain_of(theirs))
    caplog.set_level(logging.INFO)
    await broker.look()
    assert broker.tls.made is before
    assert len(caplog.records) == 2, "the keystore is refused, and the truststore is used"
    await broker.look()
    assert broker.tls.made is not before
    await broker.look()
    assert len(caplog.records) == 3


async def test_a_certificate_that_is_not_valid_yet_is_used_once_it_is(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    broker, tomorrow = Broker(house), issued(not_before=1, not_after=3, host="broker2")
    house.pem(key_of(tomorrow) + chain_of(tomorrow))
    for _ in range(2):
        await broker.look()
    assert broker.hosts == {"localhost"}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    broker.machine.days = 2
    await broker.look()
    assert broker.hosts == {"broker2"}
