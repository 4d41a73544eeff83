"""Tests of `pykbroker wait` without credentials, on brokers with TLS, users and client certificates."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.core.security.own_certificates import AUTHORITY
from pykbroker.testing import running_broker

USERS = {"alice": "secret"}


def wait(*options: str, **environ: str) -> tuple[int, str]:
    """Return the exit code of the command, and what it prints."""
    done = CliRunner().invoke(pykbroker, ["wait", "--timeout", "2", *options], env=environ)
    return done.exit_code, done.output.strip()


@pytest.mark.parametrize("options", [{}, {"tls": True}, {"users": USERS}, {"tls": True, "users": USERS}])
def test_a_broker_answers_without_credentials(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    with running_broker(**options) as broker:
        answers = (0, f"The broker on {broker.bootstrap} answers.")
        environ = {"PYKBROKER_LISTEN": broker.bootstrap}
        if "tls" in options:
            environ["PYKBROKER_TLS"] = "auto"
        if "users" in options:
            environ["PYKBROKER_USER"] = "alice:secret"
        assert wait(**environ) == answers
        assert not [each for each in caplog.records if each.levelname == "WARNING"]
        assert wait("-b", broker.bootstrap) == answers


def test_a_broker_that_wants_a_certificate_answers(tmp_path: Path) -> None:
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / AUTHORITY)}
    for version in ("TLSv1.2", "TLSv1.3"):
        configs = {**trusted, "ssl.client.auth": "required", "ssl.enabled.protocols": version}
        with running_broker(tls=True, data_dir=tmp_path, configs=configs) as broker:
            assert wait("-b", broker.bootstrap) == (0, f"The broker on {broker.bootstrap} answers.")


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL"])
def test_a_server_that_closes_each_connection_is_no_broker(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def close_each() -> None:
            while (peer := listener.accept()[0]).recv(5)[:1] != b"e":
                peer.close()
            peer.close()

        server = threading.Thread(target=close_each)
        server.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        code, printed = wait("--timeout", "0.3", PYKBROKER_LISTEN=f"{protocol}={address}")
        assert (code, f"no broker has answered on {address} within 0.3 s" in printed) == (1, True), printed
        with socket.create_connection(listener.getsockname()) as last:
            last.sendall(b"end")
        server.join()


def test_with_a_client_config_the_certificate_is_verified(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\n")
    with running_broker(tls=True) as broker:
        code, printed = wait("-b", broker.bootstrap, "--client-config", str(file))
        assert (code, "the broker's certificate is refused" in printed) == (1, True), printed
