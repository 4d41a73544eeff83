"""Users and ACLs by `pykbroker users`, `pykbroker acls` and Kafka's tools, on pykbroker and on Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from tests.interop.java_tools import ToolsJvm, lines_of
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.scenarios import eventually
from tools.broker_process import BrokerProcess, set_options

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CONFIGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.proxied.scram-sha-256.sasl.jaas.config": f"{LOGIN};",
    "listener.name.proxied.scram-sha-512.sasl.jaas.config": f"{LOGIN};",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACL_TOOL, CONFIG_TOOL = "kafka-acls", "kafka-configs"
ONE, OTHER = "SCRAM-SHA-256=[iterations=4096,password=dave-secret]", "SCRAM-SHA-512=[password=dave-secret]"
REFUSAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
OF_TOOLS = (
    (CONFIG_TOOL, f"--alter --entity-type users --entity-name dave --add-config {ONE},{OTHER}"),
    (CONFIG_TOOL, f"--alter --entity-type users --entity-name dave --add-config {ONE}"),
    (CONFIG_TOOL, f"--alter --entity-type users --entity-name dave --add-config {OTHER}"),
    (CONFIG_TOOL, "--describe --entity-type users --entity-name dave"),
    (CONFIG_TOOL, "--describe --entity-type users"),
    (CONFIG_TOOL, "--alter --entity-type users --entity-name dave --delete-config SCRAM-SHA-256"),
    (CONFIG_TOOL, "--alter --entity-type users --entity-name nobody --delete-config SCRAM-SHA-256"),
    (CONFIG_TOOL, "--describe --entity-type users --entity-name dave"),
    (ACL_TOOL, "--add --allow-principal User:dave --operation Read --operation Describe --topic tooled"),
    (ACL_TOOL, "--add --allow-principal User:dave --producer --topic to --resource-pattern-type prefixed"),
    (ACL_TOOL, "--add --deny-principal User:erin --deny-host 10.0.0.1 --operation All --group tooled"),
    (ACL_TOOL, "--add --allow-principal User:dave --operation Alter --cluster"),
    (ACL_TOOL, "--list --topic tooled --resource-pattern-type match"),
    (ACL_TOOL, "--list --principal User:erin"),
    (ACL_TOOL, "--remove --force --allow-principal User:dave --operation Read --topic tooled"),
    (ACL_TOOL, "--remove --force --topic to --resource-pattern-type prefixed"),
    (ACL_TOOL, "--remove --force --cluster"),
    (ACL_TOOL, "--list"),
    (ACL_TOOL, "--remove --force --topic tooled"),
    (ACL_TOOL, "--remove --force --group tooled"),
)
"""The calls of Kafka's tools, whose output both kinds of brokers must cause."""

pytestmark = pytest.mark.timeout(120)


class Cluster(NamedTuple):
    """The address at which everybody may do everything, and that at which users log in."""

    open: str
    login: str


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    more = "".join(f"{name}={value}\n" for name, value in CONFIGS.items())
    nodes = KafkaCluster(tmp_path_factory.mktemp("kafka"), kafka_jars, 1, more)
    yield Cluster(f"127.0.0.1:{nodes.ports[1]}", f"127.0.0.1:{nodes.proxied[1]}")
    nodes.stop()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    listen = ("--listen", "PROXIED=127.0.0.1:0")
    broker = BrokerProcess(tmp_path_factory.mktemp("ours"), "--memory", *listen, *set_options(CONFIGS))
    broker.start()
    yield Cluster(broker.address, str(broker.announced.listeners["PROXIED"]))
    broker.kill()


@pytest.fixture(params=["ours", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return a cluster of each kind."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


def run(address: str, *words: str, file: Path | None = None, code: int = 0) -> str:
    """Return the output of a command that ends with a code."""
    done = CliRunner().invoke(pykbroker, [*words, "-b", address, *(["--client-config", str(file)] if file else [])])
    assert done.exit_code == code, done.output
    return done.output


def client(path: Path, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Path:
    """Return the file of a client that logs in."""
    jaas = f'{LOGIN} username="{user}" password="{password}";'
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    return path


def test_users_of_either_cluster_log_in_until_they_are_removed(cluster: Cluster, tmp_path: Path) -> None:
    assert run(cluster.open, "users", "add", "alice:secret", "bob:hidden").splitlines() == [
        "user alice is added",
        "user bob is added",
    ]
    expected = [
        (user, mechanism, 4096) for user in ("alice", "bob") for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    eventually(lambda: users_of(cluster) == expected)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        run(cluster.login, "topics", "list", file=client(tmp_path / "alice", "alice", "secret", mechanism))
    assert run(cluster.open, "users", "add", "alice:other") == "user alice has another password\n"
    assert run(cluster.open, "users", "remove", "bob") == "user bob is removed\n"
    eventually(lambda: not users_of(cluster)[2:])
    run(cluster.login, "topics", "list", file=client(tmp_path / "alice", "alice", "other"))
    for user, password in (("alice", "secret"), ("bob", "hidden"), ("nobody", "secret")):
        refused = run(cluster.login, "topics", "list", file=client(tmp_path / "wrong", user, password), code=1)
        assert refused == f"Error: {cluster.login}: {REFUSAL}\n"
    assert run(cluster.open, "users", "remove", "alice") == "user alice is removed\n"
    eventually(lambda: users_of(cluster) == [])
    missing = run(cluster.open, "users", "remove", "alice", code=1)
    assert missing == "Error: there is no user alice: `pykbroker users list` lists all\n"


def test_what_acls_allow_is_what_a_user_may_do(cluster: Cluster, tmp_path: Path) -> None:
    """A broker of Kafka may learn of an ACL after the command that has created it has ended."""
    run(cluster.open, "users", "add", "carol:secret")
    file = client(tmp_path / "carol", "carol", "secret")
    create = ("acls", "check", "carol", "CREATE", "--topic", "orders")
    assert "may not CREATE topic orders, unless super.users has it or allow.everyone.if.no.acl.found is true" in run(
        cluster.open, *create, code=1
    )
    assert "TOPIC_AUTHORIZATION_FAILED" in run(cluster.login, "topics", "create", "orders", file=file, code=1)
    run(cluster.open, "acls", "allow", "carol", "ALL", "--topic", "ord", "--prefix")
    decides = "the ACL that decides is 'User:carol may do anything with every topic whose name begins with ord'"
    eventually(lambda: len(acls_of(cluster, "orders")) == 1)
    assert decides in run(cluster.open, *create)
    run(cluster.login, "topics", "create", "orders", file=file)
    assert "CLUSTER_AUTHORIZATION_FAILED" in run(cluster.login, "acls", "list", file=file, code=1)
    run(cluster.open, "acls", "deny", "*", "DELETE", "--topic", "orders")
    eventually(lambda: len(acls_of(cluster, "orders")) == 2)
    denied, allowed = run(
        *(cluster.open, "acls", "check", "carol", "DELETE,WRITE", "--topic", "orders"), code=1
    ).splitlines()
    assert denied.endswith("the ACL that decides is 'User:* must not DELETE topic orders'")
    assert decides in allowed
    refused = run(cluster.login, "topics", "delete", "orders", file=file, code=1)
    assert "TOPIC_AUTHORIZATION_FAILED" in refused
    assert run(cluster.open, "acls", "remove", "*", "--topic", "orders").startswith("removed: User:* must not DELETE")
    run(cluster.open, "acls", "remove", "carol", "--topic", "ord", "--prefix")
    run(cluster.open, "topics", "delete", "orders")
    run(cluster.open, "users", "remove", "carol")
    eventually(lambda: acls_of(cluster, "orders") == [])


def users_of(cluster: Cluster) -> list[tuple[str, str, int]]:
    """Return the users with their mechanisms and iterations."""
    return [tuple(row.values()) for row in json.loads(run(cluster.open, "users", "list", "--json"))]


def acls_of(cluster: Cluster, topic: str) -> list[dict[str, str]]:
    """Return the ACLs that apply to a topic."""
    found: list[dict[str, str]] = json.loads(run(cluster.open, "acls", "list", "--topic", topic, "--json"))
    return found


def test_kafkas_tools_print_the_same_for_both(ours: Cluster, kafka: Cluster, jvm: ToolsJvm) -> None:
    for script, arguments in OF_TOOLS:
        both = partial(outputs, jvm, (ours.open, kafka.open), script, arguments)
        if "--describe" in arguments or "--list" in arguments:
            eventually(lambda both=both: len(set(both())) == 1)  # type: ignore[misc]
        else:
            one, other = both()
            assert one == other, f"{script} {arguments}"
            assert one
    for each in (ours, kafka):
        assert users_of(each) == [("dave", "SCRAM-SHA-512", 4096)]
        assert acls_of(each, "tooled") == []


def outputs(jvm: ToolsJvm, addresses: Sequence[str], script: str, arguments: str) -> list[tuple[str, ...]]:
    """Return the lines that a tool of Kafka prints for each address, without the address.

    Kafka returns ACLs, users and the mechanisms of a user in any order, so that lines and words are sorted.
    """
    runs = (jvm.run(script, ["--bootstrap-server", at, *arguments.split()]).replace(at, "HOST") for at in addresses)
    return [tuple(sorted(" ".join(sorted(line.replace(",", " ").split())) for line in lines_of(each))) for each in runs]
