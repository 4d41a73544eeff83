"""The page `docs/security.md` as a reader follows it: its commands, files and messages, and its lines for clients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.testing.running import running_broker
from tests.interop.page import Page, runs
from tools.examples import PROGRAMS, Example, broker_of
from tools.secured_examples import ADDRESS, AUTHORITY, PAGE, REPLACEMENTS, SECTION_OF, properties_of_page, sections

TEXT = PAGE.read_text()
FILE = re.compile(r"^```properties\n# ([\w.]+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUN_HERE = [each for each in PROGRAMS if each.directory in REPLACEMENTS and not each.fetches and not each.programs]

pytestmark = pytest.mark.timeout(180)


def test_the_commands_of_the_page_have_their_output(tmp_path: Path) -> None:
    page = Page(tmp_path)
    for name, content in FILE.findall(TEXT):
        (tmp_path / name).write_text(content)
    try:
        for command, output in runs(TEXT):
            if command.startswith("pykbroker start"):
                page.stop()
                of_config = " --listen CLIENTS=127.0.0.1:0 --listen INTERNAL=127.0.0.1:0"
                page.run(command + of_config * ("--config" in command), output)
                page.environ["PYKBROKER_BOOTSTRAP"] = next(iter(page.places.values()))
            else:
                page.run(f"({command}) 2>&1; [ $? = 1 ]" if is_refused(output) else command, output)
        (audited,) = re.findall(r"```text\n(Principal .*)\n```", TEXT)
        logged = [line for path in tmp_path.glob("*/stderr") for line in path.read_text().splitlines()]
        assert any(line.endswith(audited) for line in logged), "\n".join(logged)
    finally:
        page.stop()


def is_refused(output: str) -> bool:
    return output.startswith("Error: ") or "may not" in output


def test_each_cause_of_the_table_is_what_a_client_says(tmp_path: Path) -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", TEXT, re.MULTILINE))
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    seen: set[str] = set()

    def says(expected: str, bootstrap: str, *words: str, **changed: str) -> None:
        texts = {name: changed.get(name.replace(".", "_"), value) for name, value in properties.items()}
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in texts.items() if value))
        done = CliRunner().invoke(pykbroker, [*words, "-b", bootstrap, "--client-config", str(file)])
        assert (done.exit_code, expected in done.output) == (1, True), done.output
        seen.add(expected)

    with running_broker(tls=True, users=users, authorize=True) as secured, running_broker() as unsecured:
        properties = secured.java("alice")
        address, topics = secured.bootstrap, ("topics", "list")
        says("closed the connection", address, *topics, security_protocol="PLAINTEXT")
        says("the broker does not answer by TLS", unsecured.bootstrap, *topics)
        says(
            "the broker's certificate is refused", address, *topics, ssl_truststore_location="", ssl_truststore_type=""
        )
        says("the broker's certificate is not for", address.replace("127.0.0.1", "127.1"), *topics)
        wrong = properties["sasl.jaas.config"].replace("alice-secret", "wrong")
        says("Authentication failed", address, *topics, sasl_jaas_config=wrong)
        of_bob = secured.java("bob")["sasl.jaas.config"]
        says("AUTHORIZATION_FAILED", address, "topics", "create", "orders", sasl_jaas_config=of_bob)
    assert seen == set(rows)


@pytest.mark.parametrize("example", RUN_HERE, ids=[example.directory for example in RUN_HERE])
def test_an_example_connects_with_the_lines_of_the_page(tmp_path: Path, example: Example) -> None:
    with broker_of(tmp_path, is_secured=True) as (address, secured):
        example.run(address, secured)


def test_every_client_of_the_examples_has_its_lines() -> None:
    clients = {each.directory for each in PROGRAMS if each.address}
    assert clients == set(REPLACEMENTS)
    assert {SECTION_OF.get(each, each) for each in clients} == set(sections())


def test_the_lines_of_each_client_name_its_settings() -> None:
    """The clients on the JVM are those that the tests do not run. Their names are Kafka's, with prefixes."""
    lines, java = sections(), dict(line.split("=", 1) for line in properties_of_page().splitlines())
    found: dict[str, Any] = {}
    exec(lines["spark"], found)  # noqa: S102 - the page's own
    assert found["secured"] == {
        "kafka.bootstrap.servers": ADDRESS,
        **{f"kafka.{name}": each for name, each in java.items()},
    }
    spring = dict(line.split("=", 1) for line in lines["spring"].splitlines())
    assert spring.pop("spring.kafka.security.protocol") == java["security.protocol"]
    assert {f"spring.kafka.properties.{name}": java[name] for name in java if name != "security.protocol"} == spring
    for name in ("kafka-connect", "mirrormaker"):
        assert "alice.properties" in lines[name]
    for name in ("node", "go", "quix", "faststream"):
        assert AUTHORITY in lines[name]
        assert '"alice-secret"' in lines[name]
