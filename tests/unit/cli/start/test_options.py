"""Tests of `Options`, which turns the command line and a config file into settings."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec
import pytest

from pykbroker.cli.start.data_dirs import default_data_dir, make_data_dir
from pykbroker.cli.start.options import Options
from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.security.protocol import SecurityProtocol

ONLY_BROKER = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "h:1"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_a_broker_without_options_listens_on_localhost_only() -> None:
    settings = Options().settings()
    assert settings.listeners == (ListenerSettings("PLAINTEXT", Address("127.0.0.1", 9092), None),)
    assert settings.data_dirs == (default_data_dir(),)
    assert settings.config.get("listeners") == ("PLAINTEXT://127.0.0.1:9092",)
    assert settings.config.log_dirs == settings.data_dirs
    assert settings.config.offsets_topic_replication_factor == 1


def test_the_default_data_directory_belongs_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_data_dir() == "/home/me/.local/share/pykbroker"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_data_dir() == "/data/pykbroker"
    monkeypatch.setattr("sys.platform", "darwin")
    assert default_data_dir() == "/home/me/Library/Application Support/pykbroker"


@pytest.mark.parametrize(
    ("volume", "directory"),
    [
        ("/bitnami", "/bitnami/kafka/data"),
        ("/bitnami/kafka", "/bitnami/kafka/data"),
        ("/tmp/kraft-combined-logs", "/tmp/kraft-combined-logs"),
        ("/kafka", "/kafka/data"),
        ("/var/lib/kafka/data", "/var/lib/kafka/data"),
    ],
)
def test_a_container_stores_data_in_the_volume_of_a_compose_file_for_another_image(
    monkeypatch: pytest.MonkeyPatch, file: Path, volume: str, directory: str
) -> None:
    monkeypatch.setattr("os.path.ismount", lambda path: path in (volume, "/var/lib/kafka/data"))
    environ = {"KAFKA_LOG_DIRS": "/var/lib/kafka/data"}
    assert Options(container=True, environ=environ).settings().data_dirs == (directory,)
    assert Options(container=True, environ={**environ, "KAFKA_LOG_DIR": "/one"}).settings().data_dirs == ("/one",)
    named = {**environ, "KAFKA_CFG_LOG_DIRS": "/data"}
    assert Options(container=True, environ=named).settings().data_dirs == ("/data",)
    file.write_text("log.dirs=/in/the/file\n")
    assert Options(container=True, environ=environ, file=str(file)).settings().data_dirs == ("/in/the/file",)
    assert Options(container=True, environ=named, file=str(file)).settings().data_dirs == ("/data",)


def test_a_container_reads_the_file_that_a_compose_file_mounts_for_another_image(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    file.write_text("num.partitions=7\nmessage.max.bytes=2000\n")
    monkeypatch.setattr("pykbroker.cli.start.options.MOUNTED_FILES", ("/nowhere", str(file)))
    environ = {"KAFKA_NUM_PARTITIONS": "8"}
    config = Options(container=True, environ=environ).settings().config
    assert (config.num_partitions, config.get("message.max.bytes")) == (8, 2000)
    assert Options().settings().config.num_partitions == 1
    chosen = file.with_name("chosen")
    chosen.write_text("num.partitions=9\n")
    assert Options(container=True, file=str(chosen)).settings().config.num_partitions == 9


def test_memory_stores_data_in_the_temporary_directory() -> None:
    settings = Options(memory=True, topics=(NewTopic("a", 1),)).settings("/tmp/x")
    assert settings.memory
    assert settings.data_dirs == ("/tmp/x",)
    assert settings.topics == (NewTopic("a", 1),)
    with pytest.raises(click.UsageError, match="choose one of them"):
        Options(memory=True, data_dir="d").settings("/tmp/x")


def test_a_server_properties_file_of_kafka_is_read(file: Path) -> None:
    file.write_text(
        "# Kafka\nnode.id = 4\nprocess.roles=broker,controller\n"
        "listeners=CONTROLLER://:9093,LOCAL://:19092\nlistener.security.protocol.map=LOCAL:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "advertised.listeners=LOCAL://broker.example:29092\nlog.dirs=/var/a,/var/b\nnum.partitions=\\u0037\nzookeeper.x=1\n"
    )
    settings = Options(file=str(file)).settings()
    assert settings.listeners == (
        ListenerSettings("LOCAL", Address("0.0.0.0", 19092), Address("broker.example", 29092)),
    )
    assert settings.inter_broker_listener == "LOCAL"
    assert settings.data_dirs == ("/var/a", "/var/b")
    assert (settings.config.node_id, settings.config.num_partitions) == (4, 7)
    assert settings.config.unknown == ("zookeeper.x",)
    assert settings.config.offsets_topic_replication_factor == 3


def test_the_command_line_takes_precedence_over_the_file(file: Path) -> None:
    file.write_text("listeners=PLAINTEXT://:1\nadvertised.listeners=PLAINTEXT://a:1\nlog.dirs=/a\nnum.partitions=2\n")
    options = Options(
        listen=(("", Address("localhost", 0)),), data_dir="/b", configs={"num.partitions": "3"}, file=str(file)
    )
    settings = options.settings()
    assert settings.listeners == (ListenerSettings("PLAINTEXT", Address("localhost", 0), None),)
    assert settings.data_dirs == ("/b",)
    assert settings.config.num_partitions == 3


def test_advertise_sets_advertised_listeners() -> None:
    settings = Options(advertise=(("", Address("broker.example", 1)),)).settings()
    assert settings.listeners[0].advertised == Address("broker.example", 1)
    assert settings.config.get("advertised.listeners") == ("PLAINTEXT://broker.example:1",)


def test_listen_replaces_the_listeners_of_the_config_file(file: Path) -> None:
    file.write_text(
        "listeners=A://:1,B://:2\nadvertised.listeners=A://a:1\ninter.broker.listener.name=A\n"
        "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\n"
    )
    settings = Options(file=str(file), listen=(("", Address("localhost", 3)), ("C", Address("::1", 4)))).settings()
    assert settings.listeners == (
        ListenerSettings("PLAINTEXT", Address("localhost", 3)),
        ListenerSettings("C", Address("::1", 4)),
    )
    assert settings.inter_broker_listener == "PLAINTEXT"
    assert settings.config.get("listeners") == ("PLAINTEXT://localhost:3", "C://[::1]:4")
    mapped = "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT,C:PLAINTEXT"
    assert settings.config.get("listener.security.protocol.map") == mapped
    assert settings.config.get("inter.broker.listener.name") is None


@pytest.mark.parametrize(
    ("texts", "listen"),
    [
        ({}, ("",)),
        (ONLY_BROKER, ("",)),
        ({**ONLY_BROKER, "listeners": "INTERNAL://:2"}, ("",)),
        ({"listeners": "INTERNAL://:2"}, ("", "CONTROLLER")),
    ],
)
def test_a_missing_listener_for_other_brokers_is_refused(texts: dict[str, str], listen: tuple[str, ...]) -> None:
    name = "inter.broker.listener.name"
    texts = {**texts, name: "internal", "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT"}
    addresses = tuple((name, Address("h", port)) for port, name in enumerate(listen, 3))
    with pytest.raises(StartError) as refused:
        Options(configs=texts, listen=addresses).settings()
    assert str(refused.value) == (
        f"{name}: no listener for clients is called INTERNAL: add --listen INTERNAL=HOST:PORT, or write one of"
        " PLAINTEXT"
    )
    complete = Options(configs=texts, listen=(*addresses, ("INTERNAL", Address("h", 9)))).settings()
    assert complete.inter_broker_listener == "INTERNAL"


def test_an_invalid_listener_in_the_config_file_prevents_the_start(file: Path) -> None:
    file.write_text("node.id=1\nlisteners=OTHER://:9094\n")
    with pytest.raises(StartError, match=f"^{file}:2: listeners: OTHER has no security protocol"):
        Options(file=str(file)).settings()
    with pytest.raises(StartError, match="^--listen has A twice"):
        Options(file=str(file), listen=(("A", Address("h", 1)), ("A", Address("h", 2)))).settings()


def test_a_properties_file_that_does_not_parse_is_refused(file: Path) -> None:
    file.write_text("a=\\u00zz\n")
    with pytest.raises(StartError, match="cannot read"):
        Options(file=str(file)).settings()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("num.partition", "did you mean num.partitions?"),
        ("retention.ms", "for all topics of this broker it is called log.retention.ms."),
        ("xyzzy", "There is no broker config xyzzy."),
    ],
)
def test_an_unknown_config_is_refused_with_the_nearest_name(name: str, hint: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        Options(configs={name: "1"}).settings()
    assert caught.value.message.endswith(hint)


def test_an_unknown_config_in_a_file_is_reported_with_its_line_and_the_nearest_name(file: Path) -> None:
    file.write_text("# Kafka\nlog.dirs=/a,\\\n  /b\nnum.partition=3\nlistener.name.x.y=1\nretention.ms=1\n")
    assert list(Options(file=str(file)).without_effect()) == [
        f"{file}:4: There is no broker config num.partition; did you mean num.partitions? It has no effect.",
        f"{file}:6: retention.ms is a config of topics; for all topics of this broker it is called log.retention.ms."
        " It has no effect.",
    ]
    assert list(Options().without_effect()) == []


def test_an_invalid_value_is_refused(file: Path) -> None:
    with pytest.raises(click.UsageError, match="^Invalid value x for configuration num.partitions"):
        Options(configs={"num.partitions": "x"}).settings()
    file.write_text("num.partitions=1\n\nnum.partitions=x\n")
    with pytest.raises(click.UsageError, match="properties:3: Invalid value x for configuration num.partitions"):
        Options(file=str(file)).settings()
    with pytest.raises(click.UsageError, match="^Invalid value y for configuration num.partitions"):
        Options(file=str(file), configs={"num.partitions": "y"}).settings()


def test_the_data_directory_is_created(tmp_path: Path) -> None:
    make_data_dir(str(tmp_path / "a/b"))
    assert (tmp_path / "a/b").is_dir()


def test_a_data_directory_that_cannot_be_created_or_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=r"cannot create .*file/d.* --data-dir"):
        make_data_dir(str(tmp_path / "file/d"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StartError, match=f"the user {os.getuid()} cannot write"):
        make_data_dir(str(tmp_path))


def test_a_config_that_names_a_java_class_prevents_the_start(file: Path) -> None:
    file.write_text("log.dirs=/d\n\nauthorizer.class.name=org.example.Authorizer\n")
    with pytest.raises(
        click.UsageError,
        match=f"^{file}:3: authorizer.class.name is set to .*org.example.Authorizer.*"
        "by pykbroker.ignore.classes=authorizer.class.name$",
    ):
        Options(file=str(file)).settings()
    with pytest.raises(click.UsageError, match="pykbroker.ignore.classes=authorizer.class.name"):
        Options(configs={"authorizer.class.name": "A"}).settings()
    ignored = {"pykbroker.ignore.classes": "authorizer.class.name"}
    assert Options(file=str(file), configs=ignored).settings().data_dirs == ("/d",)


def test_variables_in_any_source_of_configs_are_replaced_by_config_providers(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTITIONS", "7")
    monkeypatch.setenv("PORT", "9999")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    file.write_text(
        f"config.providers=env,vault\nconfig.providers.env.class={provider}\n"
        "listeners=PLAINTEXT://127.0.0.1:${env:PORT}\nnum.partitions=${env:PARTITIONS}\n"
        "log.retention.ms=${env:PARTITIONS}000\nssl.keystore.password=${vault:x:y}${env:NOPE}\n"
    )
    options = Options(file=str(file), configs={"message.max.bytes": "${env:PARTITIONS}00"})
    config = options.settings().config
    assert options.settings().listeners[0].address.port == 9999
    assert (config.num_partitions, config.get("log.retention.ms"), config.get("message.max.bytes")) == (7, 7000, 700)
    assert config.get("ssl.keystore.password") == "${vault:x:y}${env:NOPE}"
    assert list(options.without_effect()) == [
        f"{file}:1: config.providers has 'vault', and config.providers.vault.class is not set. Its variables stay as "
        "they are: set the class, or correct the name"
    ]
    environ = {
        "KAFKA_CONFIG_PROVIDERS": "e",
        "KAFKA_CONFIG_PROVIDERS_E_CLASS": provider,
        "KAFKA_NUM_PARTITIONS": "${e:PARTITIONS}",
    }
    options = Options(container=True, environ=environ)
    assert options.settings().config.num_partitions == 7
    assert list(options.without_effect()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("num.partitions=${env:SECRET}", "Invalid value ${env:SECRET} for configuration num.partitions: The value of "),
        ("num.partitions=x", "Invalid value x for configuration num.partitions: Not a number of type INT"),
        ("rack=${file:/nowhere:x}", "Could not read properties from file /nowhere, in the value of rack"),
        ("config.providers.file.class=com.example.Vault", "Invalid value com.example.Vault for configuration config."),
    ],
)
def test_a_variable_that_has_no_valid_value_is_refused_with_its_line_and_without_its_value(
    file: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.setenv("SECRET", "CANARY")
    package = "org.apache.kafka.common.config.provider"
    file.write_text(
        f"config.providers=env,file\nconfig.providers.env.class={package}.EnvVarConfigProvider\n"
        f"config.providers.file.class={package}.FileConfigProvider\n{line}\n"
    )
    with pytest.raises((StartError, click.UsageError)) as refused:
        Options(file=str(file)).settings()
    assert str(refused.value).startswith(f"{file}:4: {message}")
    assert "CANARY" not in str(refused.value)


def test_tls_auto_calls_a_listener_without_a_name_ssl_and_names_its_keystore(file: Path, tmp_path: Path) -> None:
    local = Address("127.0.0.1", 9092)
    with_tls = Options(data_dir=str(tmp_path), has_own_certificate=True)
    settings = with_tls.settings()
    assert settings.listeners == (ListenerSettings("SSL", local, None, SecurityProtocol.SSL),)
    assert settings.config.texts["ssl.keystore.location"] == f"{tmp_path}/tls-broker.pem"
    assert settings.config.texts["ssl.keystore.type"] == "PEM"
    listen = (("", Address("0.0.0.0", 1)), ("PLAINTEXT", Address("0.0.0.0", 2)), ("OUT", Address("0.0.0.0", 3)))
    mapped = {"listener.security.protocol.map": "OUT:SASL_SSL"}
    listeners = msgspec.structs.replace(with_tls, listen=listen, configs=mapped).settings().listeners
    assert [(each.name, each.protocol.name) for each in listeners] == [
        ("SSL", "SSL"),
        ("PLAINTEXT", "PLAINTEXT"),
        ("OUT", "SASL_SSL"),
    ]
    (in_container,) = msgspec.structs.replace(with_tls, container=True).settings().listeners
    everywhere, localhost = Address("0.0.0.0", 9092), Address("localhost", 9092)
    assert in_container == ListenerSettings("SSL", everywhere, localhost, SecurityProtocol.SSL)
    (advertised,) = msgspec.structs.replace(with_tls, advertise=(("", localhost),)).settings().listeners
    assert advertised.advertised == localhost


def test_tls_auto_is_refused_without_a_listener_that_has_tls_and_beside_another_keystore(file: Path) -> None:
    file.write_text("listeners=PLAINTEXT://:9092\n")
    with pytest.raises(StartError, match="--tls auto: the listener PLAINTEXT uses no TLS: call it SSL"):
        Options(file=str(file), has_own_certificate=True).settings()
    file.write_text("listeners=SSL://:9092\nssl.keystore.location=/k.p12\n")
    expected = f"^{file}:2: --tls auto and ssl.keystore.location contradict each other: remove one of them"
    with pytest.raises(StartError, match=expected):
        Options(file=str(file), has_own_certificate=True).settings()
    file.write_text("listeners=SSL://:9092,SASL_SSL://:9093\nlistener.name.sasl_ssl.ssl.keystore.location=/k.p12\n")
    texts = Options(file=str(file), has_own_certificate=True).settings().config.texts
    assert texts["listener.name.sasl_ssl.ssl.keystore.location"] == "/k.p12"
