"""The options of the brokers of `pykbroker cluster`."""

from __future__ import annotations

import msgspec
import pytest

from pykbroker.cli.cluster.plan import ClusterPlan, of_broker
from pykbroker.cli.cluster.security import ClusterSecurity
from pykbroker.cli.parameters import named_address
from pykbroker.cli.start.options import Options
from pykbroker.core.address import Address
from pykbroker.core.config.java_classes import STANDARD_AUTHORIZER
from pykbroker.core.settings import Settings

HERE = Address("127.0.0.1", 9092)
SECURED = ClusterPlan(3, 1, HERE, security=ClusterSecurity(True, ("alice", "bob"), True), directory="/d")


def settings(plan: ClusterPlan, node_id: int) -> Settings:
    """Return the settings that a broker of the cluster reads from its options."""
    options = plan.options(node_id, of_broker(plan.listen, node_id), plan.controller)
    pairs = list(zip(options[::2], options[1::2], strict=True))
    return Options(
        listen=tuple(named_address(value) for name, value in pairs if name == "--listen"),
        advertise=tuple(named_address(value) for name, value in pairs if name == "--advertise"),
        configs={value.partition("=")[0]: value.partition("=")[2] for name, value in pairs if name == "--set"},
    ).settings()


def test_the_first_broker_is_the_controller_and_the_others_find_it() -> None:
    plan = ClusterPlan(3, 1, Address("127.0.0.1", 9092))
    first, *others = (settings(plan, node_id) for node_id in (1, 2, 3))
    assert [one.address for one in first.controller_listeners] == [Address("127.0.0.1", 9095)]
    assert [one.quorum for one in (first, *others)] == [(), *[(Address("127.0.0.1", 9095),)] * 2]
    assert [one.listeners[0].address.port for one in (first, *others)] == [9092, 9093, 9094]
    assert [one.config.node_id for one in (first, *others)] == [1, 2, 3]


def test_brokers_reach_each_other_on_listeners_of_their_own() -> None:
    plan = ClusterPlan(2, 1, Address("127.0.0.1", 9092))
    for node_id, port in ((1, 9095), (2, 9096)):
        found = settings(plan, node_id)
        assert found.inter_broker_listener == "INTERNAL"
        assert [one.address.port for one in found.listeners] == [9091 + node_id, port]


@pytest.mark.parametrize("config", ["inter.broker.listener.name", "security.inter.broker.protocol"])
def test_brokers_may_share_the_listener_of_clients(config: str) -> None:
    plan = ClusterPlan(2, 1, Address("127.0.0.1", 9092), configs=((config, "PLAINTEXT"),))
    found = settings(plan, 1)
    assert found.inter_broker_listener == "PLAINTEXT"
    assert [one.name for one in found.listeners] == ["PLAINTEXT"]


@pytest.mark.parametrize(("replicas", "min_isr"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_the_factor_of_replication_applies_to_all_topics(replicas: int, min_isr: int) -> None:
    config = settings(ClusterPlan(5, replicas, Address("127.0.0.1", 9092)), 2).config
    assert (config.default_replication_factor, config.min_insync_replicas) == (replicas, min_isr)
    assert config.get("offsets.topic.replication.factor") == replicas
    assert config.get("transaction.state.log.min.isr") == min_isr


def test_options_of_the_user_come_last_and_the_last_broker_creates_the_topics() -> None:
    plan = ClusterPlan(2, 1, Address("127.0.0.1", 0), ("a:6",), (("min.insync.replicas", "3"),))
    assert settings(plan, 1).config.min_insync_replicas == 3
    assert ["a:6" in plan.options(node_id, plan.listen, plan.controller) for node_id in (1, 2)] == [False, True]
    assert {of_broker(plan.listen, node_id).port for node_id in (1, 2)} == {0}


@pytest.mark.parametrize(("option", "last"), [("listen", 65_529), ("advertise", 65_533), ("console", 65_533)])
def test_ports_above_the_highest_are_refused(option: str, last: int) -> None:
    def refusal(port: int) -> str | None:
        plan = ClusterPlan(3, 1, Address("127.0.0.1", 9092))
        return msgspec.structs.replace(plan, **{option: Address("127.0.0.1", port)}).refusal()

    assert refusal(last) is None
    sentence = f"--{option} 127.0.0.1:{last + 1} leaves too few ports for 3 brokers: choose another"
    assert refusal(last + 1) == sentence


def options_of(plan: ClusterPlan, option: str) -> list[str]:
    """Return the value of an option of each broker. It is empty where the option is missing."""
    found = []
    for node_id in range(1, plan.brokers + 1):
        options = [*plan.options(node_id, plan.listen, plan.controller)]
        found.append(options[options.index(option) + 1] if option in options else "")
    return found


@pytest.mark.parametrize("option", ["advertise", "console"])
def test_brokers_take_consecutive_ports(option: str) -> None:
    plan = ClusterPlan(3, 1, Address("127.0.0.1", 9092))
    assert options_of(plan, f"--{option}") == ["", "", ""]
    for port, found in ((8000, ["h:8000", "h:8001", "h:8002"]), (0, ["h:0", "h:0", "h:0"])):
        taken = options_of(msgspec.structs.replace(plan, **{option: Address("h", port)}), f"--{option}")
        assert [value.removeprefix("PLAINTEXT=") for value in taken] == found


@pytest.mark.parametrize(("host", "loopback"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
def test_all_interfaces_need_an_advertised_address(host: str, loopback: str) -> None:
    plan = ClusterPlan(3, 1, Address(host, 9092))
    assert "add --advertise HOST:PORT" in str(plan.refusal())
    complete = msgspec.structs.replace(plan, advertise=Address("broker.example", 9092))
    assert complete.refusal() is None
    assert complete.controller == Address(loopback, 9095)
    clients, brokers = settings(complete, 2).listeners
    assert (clients.address, clients.advertised) == (Address(host, 9093), Address("broker.example", 9093))
    assert (brokers.address, brokers.advertised) == (Address(loopback, 9097), None)


@pytest.mark.parametrize(("port", "refused"), [(9089, False), (9090, True), (9098, True), (9099, False), (0, False)])
def test_the_console_cannot_have_the_ports_of_the_brokers(port: int, refused: bool) -> None:
    plan = ClusterPlan(3, 1, Address("127.0.0.1", 9092), console=Address("127.0.0.1", port))
    reason = plan.refusal()
    assert (reason is not None) == refused
    assert reason is None or reason.endswith("share ports: choose a port from 9099 on for --console")
    assert ClusterPlan(3, 1, Address("127.0.0.1", 9092), console=Address("127.0.0.2", port)).refusal() is None


def test_one_broker_is_counted_in_the_singular() -> None:
    assert [ClusterPlan(count, 1, Address("127.0.0.1", 0)).counted for count in (1, 2)] == ["1 broker", "2 brokers"]


@pytest.mark.parametrize(
    ("has_tls", "users", "protocol"),
    [
        (True, ("alice",), "SASL_SSL"),
        (True, (), "SSL"),
        (False, ("alice",), "SASL_PLAINTEXT"),
        (False, (), "PLAINTEXT"),
    ],
)
def test_brokers_know_each_other_by_certificates_if_clients_use_tls_or_log_in(
    has_tls: bool, users: tuple[str, ...], protocol: str
) -> None:
    plan = msgspec.structs.replace(
        SECURED, security=ClusterSecurity(has_tls, users), advertise=Address("broker.example", 80)
    )
    for node_id in (1, 2):
        found = settings(plan, node_id)
        clients, brokers = found.listeners
        assert (clients.name, clients.protocol.name) == (protocol, protocol)
        assert clients.advertised == Address("broker.example", 79 + node_id)
        assert found.inter_broker_listener == brokers.name == "INTERNAL"
        secured = {each.name: each.protocol.name for each in (brokers, *found.controller_listeners)}
        assert set(secured.values()) == {"PLAINTEXT" if protocol == "PLAINTEXT" else "SSL"}
        texts = found.config.texts
        assert texts.get("ssl.keystore.location") == (f"/d/{node_id}/tls-broker.pem" if has_tls else None)
        assert ("sasl.enabled.mechanisms" in texts) == bool(users)
        for name in ("internal", "controller") if protocol != "PLAINTEXT" else ():
            expected = {
                "ssl.keystore.location": f"/d/{node_id}/tls-broker.pem",
                "ssl.truststore.location": "/d/1/tls-ca.pem",
                "ssl.client.auth": "required",
            }
            assert {config: texts[f"listener.name.{name}.{config}"] for config in expected} == expected


def test_the_first_user_and_the_brokers_are_super_users() -> None:
    brokers = "User:CN=broker-1;User:CN=broker-2;User:CN=broker-3"
    for configs, supers in (
        ((), f"User:alice;{brokers}"),
        ((("super.users", "User:root;"),), f"User:root;User:alice;{brokers}"),
    ):
        texts = settings(msgspec.structs.replace(SECURED, configs=configs), 2).config.texts
        assert texts["super.users"] == supers
        assert texts["authorizer.class.name"] == STANDARD_AUTHORIZER
    own = ClusterSecurity(True, ("alice",))
    assert "super.users" not in settings(msgspec.structs.replace(SECURED, security=own), 2).config.texts
    authorized = msgspec.structs.replace(
        SECURED, security=own, configs=(("authorizer.class.name", STANDARD_AUTHORIZER),)
    )
    assert settings(authorized, 2).config.texts["super.users"] == f"User:alice;{brokers}"
    anybody = msgspec.structs.replace(
        SECURED, security=ClusterSecurity(authorizes=True), configs=(("super.users", "User:ANONYMOUS"),)
    )
    texts = settings(anybody, 2).config.texts
    assert (texts["super.users"], texts["authorizer.class.name"]) == ("User:ANONYMOUS", STANDARD_AUTHORIZER)


def test_a_map_of_protocols_keeps_the_entries_of_the_user() -> None:
    named = (("listener.security.protocol.map", "SASL_SSL:SASL_SSL,OTHER:SSL"),)
    found = settings(msgspec.structs.replace(SECURED, configs=named), 1)
    assert [each.protocol.name for each in (*found.listeners, *found.controller_listeners)] == [
        "SASL_SSL",
        "SSL",
        "SSL",
    ]
    assert "OTHER:SSL" in found.config.texts["listener.security.protocol.map"]


@pytest.mark.parametrize(
    ("configs", "refused"),
    [
        ({"super.users": "User:admin"}, True),
        ({"super.users": "User:admin;User:ANONYMOUS"}, False),
        ({"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}, False),
        ({"super.users": "User:admin", "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT"}, False),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_an_authorizer_that_would_refuse_brokers_without_certificates_is_refused(
    configs: dict[str, str], refused: bool, named: bool
) -> None:
    authorizer = {"authorizer.class.name": STANDARD_AUTHORIZER} if named else {}
    plan = msgspec.structs.replace(SECURED, configs=tuple({**configs, **authorizer}.items()))

    def refusal(security: ClusterSecurity) -> str | None:
        return msgspec.structs.replace(plan, security=security).refusal()

    assert ("add --user NAME or --tls auto" in str(refusal(ClusterSecurity(authorizes=not named)))) == refused
    assert refusal(ClusterSecurity(True, authorizes=not named)) is None


def test_certificates_are_for_the_hosts_of_clients_and_of_brokers() -> None:
    plan = msgspec.structs.replace(SECURED, listen=Address("0.0.0.0", 9092), advertise=Address("Broker.example", 9092))
    assert {"127.0.0.1", "localhost", "::1", "broker.example"} <= plan.hosts(2)
    assert "0.0.0.0" not in plan.hosts(2)
    assert "10.0.0.7" in msgspec.structs.replace(SECURED, listen=Address("10.0.0.7", 9092)).hosts(3)


@pytest.mark.parametrize(
    ("security", "config", "reason"),
    [
        (ClusterSecurity(authorizes=True), None, "--authorize needs a super user, who may add ACLs: add --user NAME"),
        (ClusterSecurity(True, authorizes=True), "super.users", None),
        (ClusterSecurity(authorizes=True), "super.users", "super.users: x is no principal"),
        (ClusterSecurity(True), "inter.broker.listener.name", "--tls or --user contradict each other: leave it"),
        (ClusterSecurity(users=("a",)), "security.inter.broker.protocol", "--tls or --user contradict each other"),
        (ClusterSecurity(True), "ssl.keystore.location", "write listener.name.ssl.ssl.keystore.location, for clients"),
        (ClusterSecurity(users=("a",)), "ssl.truststore.type", "write listener.name.sasl_plaintext.ssl.truststore"),
        (ClusterSecurity(True), "ssl.key.password", "write listener.name.ssl.ssl.key.password, for clients alone"),
        (ClusterSecurity(), "ssl.keystore.location", None),
        (ClusterSecurity(True), "listener.name.ssl.ssl.keystore.location", None),
        (ClusterSecurity(True, ("a",), True), None, None),
        (ClusterSecurity(True, ("a;User:b",), True), None, "--user a;User:b: the first user is a super user"),
        (ClusterSecurity(True, ("a;User:b",)), None, None),
        (ClusterSecurity(users=("a;b",)), "authorizer.class.name", "--user a;b: the first user is a super user"),
        (ClusterSecurity(True), "listener.name.internal.ssl.keystore.location", "brokers know each other: leave it"),
        (ClusterSecurity(True), "listener.name.controller.ssl.client.auth", "brokers know each other: leave it out"),
        (ClusterSecurity(True), "listener.name.internal.ssl.key.password", "brokers know each other: leave it out"),
        (ClusterSecurity(True), "listener.name.internal.ssl.cipher.suites", None),
        (ClusterSecurity(), "listener.name.internal.ssl.keystore.location", None),
    ],
)
def test_options_about_security_that_contradict_each_other_are_refused(
    security: ClusterSecurity, config: str | None, reason: str | None
) -> None:
    configs = () if config is None else ((config, "x"),)
    found = msgspec.structs.replace(SECURED, security=security, configs=configs).refusal()
    assert (found is None) == (reason is None)
    assert reason is None or reason in str(found)
