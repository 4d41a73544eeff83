"""Tests of the option --client-config, which all commands that connect have, and of its variable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.client_config import VARIABLE
from pykbroker.cli.main import pykbroker as command
from pykbroker.testing.running import RunningBroker, running_broker


def commands(group: click.Command, context: click.Context) -> Iterator[click.Command]:
    """Yield the commands of a group, and those of the groups in it."""
    if not isinstance(group, click.Group):
        yield group
        return
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        yield from commands(found, click.Context(found, parent=context))


def test_each_command_with_brokers_takes_the_file_and_its_variable() -> None:
    options = [
        {option for each in found.params for option in each.opts} | {str(each.envvar) for each in found.params}
        for found in commands(command, click.Context(command))
    ]
    connecting = [found for found in options if "--bootstrap" in found]
    assert len(connecting) >= 40
    assert all({"--client-config", VARIABLE} <= found for found in connecting)


@pytest.fixture(scope="module")
def secured() -> Iterator[RunningBroker]:
    with running_broker(tls=True, users={"alice": "secret"}, topics=["orders"]) as broker:
        yield broker


@pytest.fixture
def file(secured: RunningBroker, tmp_path: Path) -> Path:
    """Return the properties of alice."""
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in secured.java("alice").items()))
    return path


def listed(bootstrap: str, file: Path) -> Result:
    return CliRunner().invoke(command, ["topics", "list"], env={VARIABLE: str(file), "PYKBROKER_BOOTSTRAP": bootstrap})


def test_the_variable_names_the_file(secured: RunningBroker, file: Path) -> None:
    assert "orders" in listed(secured.bootstrap, file).stdout
    missing = listed(secured.bootstrap, Path("/missing"))
    assert (missing.exit_code, f"(env var: '{VARIABLE}'): File '/missing' does not exist" in missing.stderr) == (
        2,
        True,
    )


@pytest.mark.timeout(20)
def test_a_command_that_cannot_connect_names_the_cause(secured: RunningBroker, file: Path) -> None:
    with running_broker() as plain:
        refused = listed(plain.bootstrap, file)
    assert (refused.exit_code, "the broker does not answer by TLS: connect to its" in refused.stderr) == (1, True)
    right = file.read_text()
    file.write_text("")
    refused = listed(secured.bootstrap, file)
    assert refused.exit_code == 1
    for protocol, missing in (("PLAINTEXT", "TLS or SASL"), ("SASL_PLAINTEXT", "TLS"), ("SSL", "SASL")):
        file.write_text(right.replace("SASL_SSL", protocol))
        hint = f"a listener with {missing} does so, and needs another security.protocol in --client-config"
        for bootstrap in (secured.bootstrap, f"127.0.0.1:1,{secured.bootstrap}"):
            assert f"closed the connection: {hint}" in listed(bootstrap, file).stderr
        waiting = ["wait", "--timeout", "0.1", "-b", secured.bootstrap, "--client-config", str(file)]
        assert protocol == "PLAINTEXT" or hint in CliRunner().invoke(command, waiting).stderr
    file.write_text(right.replace("secret", "wrong"))
    for bootstrap in (secured.bootstrap, f"{secured.bootstrap},127.0.0.1:1"):
        refused = listed(bootstrap, file)
        assert (refused.exit_code, "Authentication failed during authentication" in refused.stderr) == (1, True)
        assert "no broker answers" not in refused.stderr
    file.write_text("".join(line for line in right.splitlines(keepends=True) if "truststore" not in line))
    refused = listed(secured.bootstrap, file)
    assert (refused.exit_code, "the broker's certificate is refused" in refused.stderr) == (1, True)
    assert refused.stderr.endswith("by ssl.truststore.location\n")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("sasl.jaas.config", 'of SCRAM-SHA-256 is missing: write username="…" password="…" in sasl.jaas.config'),
        ("sasl.mechanism", "sasl.mechanism is missing: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
    ],
)
def test_what_a_file_lacks_is_named_as_in_java(secured: RunningBroker, file: Path, line: str, reason: str) -> None:
    kept = [each for each in file.read_text().splitlines(keepends=True) if not each.startswith(line)]
    file.write_text("".join(kept))
    refused = listed(secured.bootstrap, file)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: --client-config {file}: ")
    assert refused.stderr.endswith(f"{reason}\n")


def test_a_config_provider_has_a_password_as_in_java(secured: RunningBroker, file: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=secret\n")
    provider = "org.apache.kafka.common.config.provider.FileConfigProvider"
    declared = f"config.providers=file\nconfig.providers.file.class={provider}\n"
    file.write_text(declared + file.read_text().replace("secret", f"${{file:{tmp_path}/secrets:password}}"))
    assert "orders" in listed(secured.bootstrap, file).stdout
    (tmp_path / "secrets").unlink()
    refused = listed(secured.bootstrap, file)
    assert f"--client-config {file}: Could not read properties from file {tmp_path}/secrets" in refused.stderr
