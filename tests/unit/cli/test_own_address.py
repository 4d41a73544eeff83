"""Tests of the address that commands ask by default: a listener of the broker that the same variables start."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pykbroker.cli.ask import BOOTSTRAP_VARIABLE
from pykbroker.cli.own_address import OF_LISTENERS, default_bootstrap
from pykbroker.cli.pipeline.options import BOOTSTRAP

CONTAINER = {"PYKBROKER_CONTAINER": "1"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in OF_LISTENERS:
        monkeypatch.delenv(variable, raising=False)


def asked(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> str:
    for variable, value in environ.items():
        monkeypatch.setenv(variable, value)
    return default_bootstrap()


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, "127.0.0.1:9092"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1"}, "127.0.0.1:9092"),
        (CONTAINER, "127.0.0.1:9092"),
        ({**CONTAINER, "KAFKA_LISTENERS": "CONTROLLER://:9093,PLAINTEXT://:19092"}, "127.0.0.1:19092"),
        ({**CONTAINER, "KAFKA_CFG_LISTENERS": "PLAINTEXT://[::]:19092"}, "127.0.0.1:19092"),
        ({**CONTAINER, "KAFKA_LISTENERS": "PLAINTEXT://kafka:19092"}, "kafka:19092"),
        ({**CONTAINER, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092"}, "127.0.0.1:29092"),
        ({**CONTAINER, "KAFKA_LISTENERS": "PLAINTEXT://:1", "PYKBROKER_LISTEN": "[::1]:2"}, "[::1]:2"),
        ({"PYKBROKER_LISTEN": "0.0.0.0:19092 B=10.0.0.7:2"}, "127.0.0.1:19092"),
        ({"PYKBROKER_LISTENERS": "PLAINTEXT://:19092"}, "127.0.0.1:19092"),
        ({**CONTAINER, "PYKBROKER_TLS": "auto", "PYKBROKER_USER": "@/no/longer/there"}, "127.0.0.1:9092"),
        ({"PYKBROKER_TLS": "auto", "PYKBROKER_LISTEN": "0.0.0.0:19092"}, "127.0.0.1:19092"),
    ],
)
def test_the_first_listener_for_clients_is_asked(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], address: str
) -> None:
    assert asked(monkeypatch, environ) == address


def test_jobs_of_the_pipeline_ask_the_same_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BOOTSTRAP_VARIABLE, raising=False)
    monkeypatch.setenv("PYKBROKER_LISTEN", "0.0.0.0:19092")
    assert BOOTSTRAP.consume_value(click.Context(click.Command("archive")), {})[0] == "127.0.0.1:19092"


def test_the_listener_of_a_file_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://10.0.0.7:19092\n")
    assert asked(monkeypatch, {"PYKBROKER_CONFIG": str(file)}) == "10.0.0.7:19092"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {**CONTAINER, "KAFKA_LISTENERS": "PLAINTEXT://:0"},
            "the variables let the broker choose any free port: name its port with --bootstrap",
        ),
        (
            {**CONTAINER, "KAFKA_LISTENERS": "PLAINTEXT"},
            "KAFKA_LISTENERS: listeners: 'PLAINTEXT' is not NAME://HOST:PORT, such as PLAINTEXT://localhost:9092",
        ),
        (
            {"PYKBROKER_USER": "alice", "PYKBROKER_LISTEN": "PLAINTEXT=127.0.0.1:1"},
            "--user: the listener PLAINTEXT has no log-in: call it SASL_SSL or SASL_PLAINTEXT, by --listen"
            " SASL_SSL=HOST:PORT or in listeners, or write PLAINTEXT:SASL_SSL in listener.security.protocol.map",
        ),
        ({"PYKBROKER_LISTEN": "x"}, "'x' is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092"),
    ],
)
def test_variables_that_name_no_address_are_refused(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], sentence: str
) -> None:
    with pytest.raises(click.ClickException) as caught:
        asked(monkeypatch, environ)
    assert caught.value.message == sentence
