"""Tests of the connection of commands: bootstrap servers that do not answer, and peers that are no broker."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import trio
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command


def listed(bootstrap: str) -> Result:
    return CliRunner().invoke(command, ["topics", "list", "-b", bootstrap])


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the address of a listener that accepts connections and sends nothing."""
    monkeypatch.setattr("pykbroker.client.admin.admin_session.CONNECT_S_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_peer_that_does_not_answer_api_versions_is_an_error_with_a_remedy(silent: str) -> None:
    result = listed(silent)
    assert result.exit_code == 1
    assert f"{silent} has not answered an ApiVersions request within 0.2 s: name the plaintext" in result.stderr


def test_bootstrap_servers_that_do_not_answer_are_passed_over(silent: str, broker: str) -> None:
    assert listed(f"127.0.0.1:1,{silent},a..b,{broker}").exit_code == 0


def test_the_failure_of_each_bootstrap_server_is_named(silent: str) -> None:
    result = listed(f"127.0.0.1:1,{silent},a..b")
    assert result.exit_code == 1
    assert f"no broker answers on 127.0.0.1:1, {silent}, a..b:9092 (" in result.stderr
    assert f"127.0.0.1:1 failed; {silent} has not answered an ApiVersions request" in result.stderr
    assert "a..b is not a valid host name" in result.stderr


def test_an_http_server_is_an_error_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer = listener.accept()[0]
            peer.recv(1)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            peer.close()

        server = threading.Thread(target=answer)
        server.start()
        result = listed(f"127.0.0.1:{listener.getsockname()[1]}")
        server.join()
    assert result.exit_code == 1
    assert "an HTTP server answers there" in result.stderr


def test_an_invalid_bootstrap_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKBROKER_BOOTSTRAP", "http://localhost:9092")
    result = CliRunner().invoke(command, ["topics", "list"])
    assert result.exit_code == 2
    assert "PYKBROKER_BOOTSTRAP" in result.stderr
    assert "is not HOST[:PORT]" in result.stderr


def test_waiting_for_an_invalid_host_name_ends_with_its_reason() -> None:
    result = CliRunner().invoke(command, ["wait", "--timeout", "0.2", "-b", "a..b"])
    assert result.exit_code == 1
    assert "no broker has answered on a..b:9092 within 0.2 s: a..b is not a valid host name" in result.stderr


def test_waiting_for_a_broker_that_answers_no_metadata_ends_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def converse(*given: object) -> None:
        raise trio.TooSlowError

    monkeypatch.setattr("pykbroker.cli.admin.wait.converse", converse)
    result = CliRunner().invoke(command, ["wait", "--timeout", "0.2"])
    assert result.exit_code == 1
    assert "within 0.2 s: it answers ApiVersions, but not Metadata" in result.stderr


def test_partitions_of_an_absent_topic_name_the_topic(broker: str) -> None:
    result = CliRunner().invoke(command, ["topics", "alter", "absent", "--partitions", "3", "-b", broker])
    assert result.exit_code == 1
    assert result.stderr == "Error: Topic 'absent' (UNKNOWN_TOPIC_OR_PARTITION)\n"


def test_a_name_that_no_request_can_have_is_an_error_without_traceback(broker: str) -> None:
    result = CliRunner().invoke(command, ["acls", "allow", "bob", "READ", "--topic", "u" * 40_000, "-b", broker])
    assert result.exit_code == 1
    assert result.stderr == "Error: CreateAclsRequest v3: a string of more than 32767 bytes\n"
