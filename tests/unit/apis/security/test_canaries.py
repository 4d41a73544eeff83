"""Secrets that never leak: a broker at level DEBUG is driven through log-ins and errors, and its output is searched."""

from __future__ import annotations

import hashlib
import logging
import ssl
import traceback
from base64 import b64encode
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import trio
from click.testing import CliRunner

from pykbroker import broker
from pykbroker.cli.kafka_tools.__main__ import main as kafka_tool
from pykbroker.cli.main import pykbroker as command
from pykbroker.cli.start.options import Options
from pykbroker.cli.start.process import LOG_FORMAT, OneLine
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import StartError
from pykbroker.core.security.sasl.scram import SHA_256
from pykbroker.quorum.own_configs import OwnConfigs
from tests.unit.apis.conftest import Client, LocalBroker, serving_with
from tests.unit.core.security.sasl.scram_client import final
from tests.unit.tls.test_context import issued, pkcs12
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.messages.metadata import MetadataRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

STORE, JAAS, SCRAM, GUESS, DYNAMIC, FORMATTED = (
    f"canary-{name}" for name in ("store", "jaas", "scram", "guess", "dynamic", "formatted")
)
SALT = b"canary-salt"
SALTED = hashlib.pbkdf2_hmac(SHA_256.hash, SCRAM.encode(), SALT, 4096)
PASSWORD, PLUGIN = "listener.name.secure.ssl.key.password", "of.a.plugin"


def spellings(secret: bytes) -> set[str]:
    """Return the forms in which output may have a secret."""
    return {secret.decode(errors="replace"), secret.hex(), b64encode(secret).decode(), repr(secret)[2:-1]}


CANARIES = {form for text in (STORE, JAAS, SCRAM, GUESS, DYNAMIC, FORMATTED) for form in spellings(text.encode())} | {
    form for secret in (SALT, SALTED) for form in spellings(secret)
}


def found_in(text: str) -> set[str]:
    return {canary for canary in CANARIES if canary in text}


def secured(directory: Path) -> Options:
    """Return the options of a broker with TLS and SASL, whose passwords are in server.properties and a file."""
    (directory / "broker.p12").write_bytes(pkcs12(issued(), STORE))
    (directory / "secrets").write_text(f"store={STORE}\n")
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{JAAS}";'
    (directory / "server.properties").write_text(
        "listeners=PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0,SECURE://127.0.0.1:0\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SECURE:SSL\n"
        "config.providers=file\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n"
        "connection.failed.authentication.delay.ms=1\n"
        f"listener.name.login.plain.sasl.jaas.config={jaas}\n"
        "ssl.keystore.type=PKCS12\n"
        f"ssl.keystore.location={directory}/broker.p12\n"
        f"ssl.keystore.password=${{file:{directory}/secrets:store}}\n"
        f"{PLUGIN}={STORE}\n"
    )
    return Options(file=str(directory / "server.properties"), memory=True)


async def log_in(client: Client, mechanism: str, password: str) -> list[Any]:
    """Log in as alice, and return the responses."""
    answers = [await client.call(SaslHandshakeRequest(mechanism=mechanism), 1)]
    if mechanism == "PLAIN":
        tokens: Iterable[bytes] = (f"\0alice\0{password}".encode(),)
    else:
        bare = "n=alice,r=nonce"
        answers.append(await client.call(SaslAuthenticateRequest(auth_bytes=f"n,,{bare}".encode()), 2))
        tokens = (final(SHA_256, bare, answers[-1].auth_bytes, password),)
    for token in tokens:
        answers.append(await client.call(SaslAuthenticateRequest(auth_bytes=token), 2))
    return answers


async def altered(client: Client, **configs: str) -> Any:
    changes = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in configs.items()]
    return await client.call(
        IncrementalAlterConfigsRequest([AlterConfigsResource(ConfigResource.BROKER, "1", changes)]), 1
    )


async def drive(local_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the responses to log-ins, changes and descriptions, of which some fail."""
    client = await local_broker.connect("PLAINTEXT")
    upsertion = ScramCredentialUpsertion("alice", SHA_256.number, 4096, SALT, SALTED)
    answers = [await client.call(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)]
    assert answers[0].results[0].error_code == 0
    too_few = msgspec.structs.replace(upsertion, iterations=1)
    answers.append(await client.call(AlterUserScramCredentialsRequest(upsertions=[too_few]), 0))
    assert answers[-1].results[0].error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    for mechanism, password in ("PLAIN", JAAS), ("SCRAM-SHA-256", SCRAM):
        for given, expected in (password, 0), (GUESS, ErrorCode.SASL_AUTHENTICATION_FAILED):
            login = await log_in(await local_broker.connect("LOGIN"), mechanism, given)
            assert login[-1].error_code == expected
            answers += [each.error_message for each in login[1:]]
    answers.append(await altered(client, **{PASSWORD.replace(".", "_"): DYNAMIC, "log_retention_ms": "77"}))
    answers.append(await altered(client, **{PASSWORD.replace(".", "_"): DYNAMIC, "log_retention_ms": "soon"}))
    assert [each.responses[0].error_code for each in answers[-2:]] == [0, ErrorCode.INVALID_REQUEST]
    answers += [
        await client.call(DescribeUserScramCredentialsRequest(users=None), 0),
        await client.call(
            DescribeConfigsRequest([DescribeConfigsResource(ConfigResource.BROKER, "1", None)], include_synonyms=True),
            4,
        ),
    ]

    def broken(self: OwnConfigs, resource: Any) -> None:
        raise RuntimeError(f"a bug in the handler of {resource!r}")

    monkeypatch.setattr(OwnConfigs, "check", broken)
    answers.append(await altered(client, **{PASSWORD.replace(".", "_"): DYNAMIC}))
    return answers


async def misbehave(local_broker: LocalBroker) -> None:
    """Begin TLS where there is none, and send rubbish, or a request that needs a log-in."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for listener in "LOGIN", "PLAINTEXT":
        client = await local_broker.connect(listener)
        with pytest.raises((trio.BrokenResourceError, ssl.SSLError)):
            await trio.SSLStream(client.stream, context).do_handshake()
    for listener in "SECURE", "LOGIN":
        client = await local_broker.connect(listener)
        await client.stream.send_all(b"\0\0\0\x20" + GUESS.encode().ljust(32))
        assert await client.closed()
    client = await local_broker.connect("LOGIN")
    await client.send(MetadataRequest(topics=[]), 12, client_id="impatient")
    assert await client.closed()


def dump(directory: Path) -> tuple[str, bytes]:
    """Return the output of dump-log for a log, and the bytes of the log."""
    files = [*directory.glob("*.log")]
    dumped = CliRunner().invoke(command, ["dump-log", "--deep", *map(str, files)])
    return dumped.output, b"".join(file.read_bytes() for file in files)


def start(options: Options, directory: Path) -> None:
    settings = options.settings(str(directory))
    trio.run(partial(broker.serve, settings, lambda serving: None))


async def test_no_secret_leaves_a_broker(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.setFormatter(OneLine(LOG_FORMAT))
    options = secured(tmp_path)
    settings = options.settings(str(tmp_path / "data"))
    async with serving_with(settings) as local_broker:
        answers = await drive(local_broker, monkeypatch)
        await misbehave(local_broker)
    assert "a bug in the handler of AlterConfigsResource" in caplog.text
    dumped, stored = dump(tmp_path / "data/__cluster_metadata-0")
    assert PASSWORD in dumped
    assert "UserScramCredentialRecord" in dumped
    assert DYNAMIC.encode() in stored, "as in Kafka, a dynamic password is stored as it is"
    output = [caplog.text, dumped, repr((options, settings)), *capsys.readouterr()]
    output.append(msgspec.json.encode(answers).decode())
    assert [found_in(text) for text in output] == [set()] * len(output)
    described = {each.name: each for each in answers[-2].results[0].configs}
    assert described["log.retention.ms"].value == "77"
    for name in PASSWORD, PLUGIN, "ssl.keystore.password", "listener.name.login.plain.sasl.jaas.config":
        assert (described[name].value, described[name].is_sensitive) == (None, True)
        assert {each.value for each in described[name].synonyms} == {None}


def test_a_start_or_a_format_that_is_refused_tells_no_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for config, wrong in (
        ("ssl.keystore.password", GUESS),
        ("listener.name.login.plain.sasl.jaas.config", f"PlainLoginModule required user_alice={JAAS}"),
        ("ssl.keystore.type", f"${{file:{tmp_path}/secrets:store}}"),
        ("num.partitions", f"${{file:{tmp_path}/secrets:store}}"),
    ):
        options = msgspec.structs.replace(secured(tmp_path), configs={config: wrong})
        with pytest.raises((StartError, click.UsageError)) as refused:
            start(options, tmp_path / "data")
        assert config.partition(".")[0] in str(refused.value)
        told.append("".join(traceback.format_exception(refused.value)))
    words = ["--config", str(tmp_path / "formatted.properties"), "--cluster-id", "A" * 22, "--standalone"]
    (tmp_path / "formatted.properties").write_text(f"log.dirs={tmp_path}/formatted\n")
    for option in (f"SCRAM-SHA-256=[name=bob,password={FORMATTED}", f"SCRAM-SHA-256=[name=bob,password={FORMATTED}]"):
        kafka_tool(["kafka-storage", "format", *words, "--add-scram", option])
    assert (tmp_path / "formatted/bootstrap.checkpoint").stat().st_mode & 0o077 == 0
    told += capsys.readouterr()
    assert [found_in(text) for text in told] == [set()] * len(told)
