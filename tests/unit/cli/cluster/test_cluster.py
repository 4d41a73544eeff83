"""`pykbroker cluster` without brokers: options that are refused, warnings and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import click
import pytest
import trio
from click.testing import CliRunner

from pykbroker.cli.cluster import member
from pykbroker.cli.cluster.cluster import cluster as cluster_command
from pykbroker.cli.cluster.plan import ClusterPlan
from pykbroker.cli.cluster.run import (
    WITHOUT_EFFECT,
    Lifelines,
    SupervisedBroker,
    Supervisor,
    make_certificates,
    run,
    warn_left_out,
)
from pykbroker.cli.cluster.security import ClusterSecurity
from pykbroker.cli.cluster.users_file import UsersFile
from pykbroker.cli.main import pykbroker
from pykbroker.cli.new_users import new_users
from pykbroker.cli.start.options import Options
from pykbroker.cli.start.own_certificates import locked
from pykbroker.cli.start.run import own_certificate
from pykbroker.core.address import Address
from pykbroker.core.config.environment import OPTIONS
from pykbroker.core.config.of_each_broker import OF_EACH_BROKER
from pykbroker.core.errors import StartError
from pykbroker.core.security.secret import Secret
from pykbroker.processes.messages import Announcement
from pykbroker.testing.cluster_options import checked_cluster_options

HERE = Address("127.0.0.1", 9092)


def refusal(*options: str) -> str:
    """Return the sentence that refuses these options."""
    result = CliRunner().invoke(pykbroker, ["cluster", *options])
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", OF_EACH_BROKER)
def test_a_config_that_each_broker_has_its_own_value_of_is_refused(name: str, tmp_path: Path) -> None:
    sentence = f"{name} cannot be set for a whole cluster: leave it out, each broker has its own"
    data = tmp_path / "data"
    assert sentence in refusal("--data-dir", str(data), "--set", "num.partitions=3", "--set", f"{name}=3")
    assert not data.exists()


@pytest.mark.parametrize(
    ("name", "value"), [("node.id", "3"), ("process.roles", "broker"), ("controller.quorum.voters", "3@h:1")]
)
def test_running_cluster_refuses_them_too(name: str, value: str) -> None:
    with pytest.raises(StartError, match=f"^{name} cannot be set for a whole cluster: "):
        checked_cluster_options(3, None, (), {name: value}, None, 30, {})


@pytest.mark.parametrize(
    "topic", ["orders:x", "orders:0", "bad/name:3", "orders:3:nothing=1", "orders:3:retention.ms=x"]
)
def test_a_bad_topic_is_refused_before_a_broker_starts(topic: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert "Invalid value for '--topic'" in refusal("--data-dir", str(data), "--topic", "good:3", "--topic", topic)
    assert not data.exists()


def test_a_directory_that_cannot_be_made_is_refused_by_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(pykbroker, ["cluster", "--data-dir", f"{tmp_path}/file/data"])
    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        f"Error: cannot create the data directory {tmp_path}/file/data (Not a directory): "
    )


def test_variables_for_options_of_a_start_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    (tmp_path / "file").touch()
    for option in OPTIONS - {"CONFIG"}:
        monkeypatch.setenv(f"PYKBROKER_{option}", "x")
    with pytest.raises(click.ClickException, match="cannot create the data directory"):
        run(ClusterPlan(1, 1, HERE), f"{tmp_path}/file/data", (), memory=False, restarts=False)
    unused = "PYKBROKER_CLUSTER_ID, PYKBROKER_CONTAINER, PYKBROKER_DATA_DIR, PYKBROKER_LISTEN, PYKBROKER_LOG_FORMAT"
    assert f"Environment variables that pykbroker cluster has no use for: {unused}" in caplog.text
    of_cluster = {str(option.envvar).removeprefix("PYKBROKER_") for option in cluster_command.params}
    of_others = {"BOOTSTRAP", "CLIENT_CONFIG"}
    assert OPTIONS - of_cluster - of_others == {name.removeprefix("PYKBROKER_") for name in WITHOUT_EFFECT}


def test_the_data_of_brokers_that_are_not_started_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("1", "2", "3", "4", "notes"):
        (tmp_path / name).mkdir()
    for brokers in (2, 3, 4):
        warn_left_out(str(tmp_path), ClusterPlan(brokers, 1, Address("127.0.0.1", 9092)))
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(f"{tmp_path} has data of broker 3, 4, which --brokers 2 does not start")
    assert second.startswith(f"{tmp_path} has data of broker 4, which --brokers 3 does not start")
    assert "Start with --brokers 4, or move their replicas first" in first


def test_a_broker_whose_supervisor_dies_while_it_is_imported_removes_its_temporary_directory(tmp_path: Path) -> None:
    data = tmp_path / "cluster" / "1"
    data.mkdir(parents=True)
    command = [sys.executable, "-m", member.__name__, str(data), member.TEMPORARY, "--listen", "127.0.0.1:0"]
    outcome = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)  # an ended supervisor
    assert outcome.returncode in (0, 128 + signal.SIGTERM), outcome.stderr
    assert not list(tmp_path.iterdir())


def test_a_later_start_keeps_the_certificates_of_all_brokers(tmp_path: Path) -> None:
    def files(brokers: int) -> dict[str, bytes]:
        security = ClusterSecurity(has_tls=True)
        make_certificates(ClusterPlan(brokers, 1, HERE, security=security, directory=str(tmp_path)))
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.glob("*/*")}

    first = files(2)
    assert first.keys() == {"1/tls-ca.pem", "1/tls-ca-key.pem", "1/tls-broker.pem", "2/tls-broker.pem"}
    assert files(2) == first
    more = files(3)
    assert more.keys() - first.keys() == {"3/tls-broker.pem"}
    assert {name: content for name, content in more.items() if name in first} == first
    make_certificates(ClusterPlan(9, 1, HERE, directory=str(tmp_path)))
    assert len(list(tmp_path.iterdir())) == 3, "brokers without TLS and users need none"


@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_second_start_leaves_the_certificates_of_a_running_broker_alone(tmp_path: Path, is_cluster: bool) -> None:
    def start(host: str) -> None:
        address = Address(host, 0)
        if is_cluster:
            plan = ClusterPlan(1, 1, HERE, advertise=address, security=ClusterSecurity(True), directory=str(tmp_path))
            make_certificates(plan)
        else:
            advertise = (("SSL", address),)
            own_certificate(Options(advertise=advertise, data_dir=str(directory), has_own_certificate=True).settings())

    directory = tmp_path / "1"
    start("one.example")
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    with locked(str(directory)), pytest.raises(click.ClickException, match="is in use by another broker"):
        start("other.example")
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == files
    start("other.example")
    assert (directory / "tls-broker.pem").read_bytes() != files["tls-broker.pem"]


def test_the_brokers_read_users_from_a_file_that_ends_with_the_command() -> None:
    users = new_users(["alice:se:cret", "bob"], "--user")
    with closing(UsersFile(users)) as file:
        for _ in range(2):
            option, path = file.options()
            alice, bob = new_users([path], option)
            assert (alice.name, alice.password, alice.is_generated) == ("alice", Secret("se:cret"), False)
            assert (bob.name, bob.is_generated) == ("bob", True)
            assert bob.password != users[1].password
    with pytest.raises(click.BadParameter, match=f"cannot read {path[1:]}"):
        new_users([path], option)


async def test_a_broker_that_starts_again_makes_no_users_so_that_a_removed_one_stays_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Announcing:
        """A process that announces a broker, and ends."""

        def __init__(self, command: list[str], held: tuple[int, ...], environ: dict[str, str], **_: object) -> None:
            assert {name for name in environ if name.startswith("PYKBROKER_")} == {"PYKBROKER_NUM_PARTITIONS"}
            users.append("--user" in command)
            assert (file.descriptor in held) == users[-1]
            told = ("the password of bob is x",) if users[-1] else ()
            self._messages = [Announcement(HERE, "id", {}, None, told), None]
            self._readable = os.open("/dev/null", os.O_RDONLY)

        def fileno(self) -> int:
            return self._readable

        def message(self) -> Announcement | None:
            return self._messages.pop(0)

        def ended(self) -> int:
            return 0

        def close(self) -> None:
            os.close(self._readable)

    async def readable(_: object) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr("pykbroker.cli.cluster.run.BrokerProcess", Announcing)
    monkeypatch.setattr("trio.lowlevel.wait_readable", readable)
    for option in OPTIONS:
        monkeypatch.setenv(f"PYKBROKER_{option}", "a value that no broker of the cluster could use")
    monkeypatch.setenv("PYKBROKER_NUM_PARTITIONS", "3")
    users = list[bool]()
    with closing(UsersFile(new_users(["bob"], "--user"))) as file:
        broker = SupervisedBroker(ClusterPlan(1, 1, HERE), 1, member.TEMPORARY, Lifelines(), HERE, file)
        serves = trio.Event()
        for _ in range(2):
            assert await broker.run(serves) == 0
            assert broker.told == ("the password of bob is x",), "it may be printed after the second start"
            assert file.is_closed, "the passwords are needed no longer"
    assert users == [True, False]
    assert "password" not in repr(Announcement(HERE, "id", {}, None, broker.told))


def test_variables_set_configs_of_all_brokers_and_are_not_in_the_list_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = list[ClusterPlan]()
    monkeypatch.setattr("pykbroker.cli.cluster.run.run", lambda plan, *_, **__: plans.append(plan))
    for name, value in {
        "SUPER_USERS": "User:root",
        "MIN_INSYNC_REPLICAS": "1",
        "SSL_KEYSTORE_PASSWORD": "canary",
        "LOG_RETENTION_MS": "3000",
        "MEMORY": "1",
        "LOG_LEVEL": "error",
    }.items():
        monkeypatch.setenv(f"PYKBROKER_{name}", value)
    options = ["--user", "alice:secret", "--authorize", "--set", "log.retention.ms=4000"]
    assert CliRunner().invoke(pykbroker, ["cluster", *options]).exit_code == 0
    (plan,) = plans
    words = plan.options(2, HERE, HERE)
    assert "super.users=User:root;User:alice;User:CN=broker-1;User:CN=broker-2;User:CN=broker-3" in words
    assert "log.retention.ms=4000" in words
    assert not [word for word in words if word.startswith(("min.insync.replicas", "ssl.keystore.password"))]
    assert plan.log_level == "error"


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("PYKBROKER_LOG_DIRS", "PYKBROKER_LOG_DIRS: log.dirs cannot be set for a whole cluster: leave it out"),
        ("PYKBROKER_NUM_PARTITION", "PYKBROKER_NUM_PARTITION: There is no broker config num.partition; did you mean"),
    ],
)
def test_a_variable_that_no_cluster_can_have_is_refused(
    variable: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "3")
    refused = CliRunner().invoke(pykbroker, ["cluster", "--memory"])
    assert (refused.exit_code, sentence in refused.stderr) == (1, True)


async def test_the_second_signal_kills_the_brokers_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    plan = ClusterPlan(1, 1, Address("127.0.0.1", 9092))
    supervisor = Supervisor(plan, member.TEMPORARY, restarts=True)
    killed = []

    class Running:
        def kill(self) -> None:
            killed.append(len(caplog.records))

    async def signals() -> AsyncIterator[int]:
        yield signal.SIGINT
        assert not killed
        yield signal.SIGTERM

    supervisor._nodes = [Running()]  # type: ignore[list-item]
    await supervisor._stop_at_signal(signals())
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["SIGINT: stopping.", "SIGTERM: killing the brokers that have not stopped."]
    assert killed == [2]
