"""Tests of the settings of TLS and SASL, in the names of Java's clients and of kafka-python."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from pykbroker.client.security import PLAINTEXT
from pykbroker.client.security_settings import InvalidSetting, client_security, split_security
from pykbroker.client.settings import node_settings
from pykbroker.producer.settings import producer_settings
from tests.unit.tls.test_context import ca_pem, chain_of, issued, key_of

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
ALICE = {"sasl_plain_username": "alice", "sasl_plain_password": "canary"}


def jaas(module: str, user: str = "alice", password: str = "canary") -> str:
    return f'{module} required username="{user}" password="{password}";'


def token(given: dict[str, Any]) -> tuple[str, bytes]:
    """Return the mechanism of the settings, and its first token."""
    sasl = client_security({"security_protocol": "SASL_PLAINTEXT"} | given).sasl
    assert sasl is not None
    return sasl.name, sasl.begin("nonce").first()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Return the paths of a CA's certificate, of a certificate with its chain, and of its key."""
    texts = {"ca": ca_pem(), "chain": chain_of(issued()), "key": key_of(issued())}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def test_users_are_those_of_kafka_python_or_of_a_jaas_line() -> None:
    plain, scram = b"\0alice\0canary", b"n,,n=alice,r=nonce"
    assert token({"sasl_mechanism": "PLAIN", **ALICE}) == ("PLAIN", plain)
    assert token({"sasl_mechanism": "SCRAM-SHA-512", **ALICE}) == ("SCRAM-SHA-512", scram)
    assert token({"sasl_mechanism": "PLAIN", "sasl_jaas_config": jaas(PLAIN_MODULE)}) == ("PLAIN", plain)
    assert token({"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": jaas(SCRAM_MODULE)})[1] == scram


def test_both_libraries_names_of_tls_work(files: dict[str, str]) -> None:
    texts = {"ssl_truststore_type": "PEM", "ssl_truststore_location": files["ca"]}
    javas = {**texts, "ssl_endpoint_identification_algorithm": "", "ssl_enabled_protocols": "TLSv1.2"}
    theirs = {
        "ssl_cafile": files["ca"],
        "ssl_certfile": files["chain"],
        "ssl_keyfile": files["key"],
        "ssl_check_hostname": False,
        "ssl_ciphers": "ECDHE+AESGCM",
    }
    for given in (javas, theirs):
        context = client_security({"security_protocol": "ssl", **given}).tls
        assert context is not None
        tls = context()
        assert (tls.check_hostname, tls.verify_mode) == (False, ssl.CERT_REQUIRED)
        assert len(tls.get_ca_certs()) == 1
    own = ssl.create_default_context()
    given_context = client_security({"security_protocol": "SSL", "ssl_context": own}).tls
    assert given_context is not None
    assert given_context() is own
    default = client_security({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **ALICE})
    assert default.tls is not None
    assert default.tls().check_hostname
    assert default.sasl is not None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"security_protocol": "TLS"}, "security_protocol='TLS' is not allowed: use PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"ssl_cafile": "a"}, "ssl_cafile has no effect with security_protocol='PLAINTEXT': set "),
        ({"security_protocol": "SSL", **ALICE}, "sasl_plain_username has no effect with security_protocol='SSL'"),
        ({"sasl_plain_pasword": "canary"}, "no setting 'sasl_plain_pasword': do you mean 'sasl_plain_password'?"),
        ({"sasl_kerberos_service_name": "k"}, "sasl_kerberos_service_name='k' is not supported"),
        ({"security_protocol": "SASL_SSL", **ALICE}, "sasl_mechanism is missing: use PLAIN, SCRAM-SHA-256"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "sasl_mechanism='GSSAPI' is not supported"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}, "the password of PLAIN is missing"),
        ({"security_protocol": "SSL", "ssl_cafile": "/nowhere"}, "ssl_cafile='/nowhere' cannot be read: No such file"),
        ({"security_protocol": "SSL", "ssl_ciphers": "none"}, "ssl_ciphers='none' does not work"),
        ({"security_protocol": "SSL", "ssl_context": "x"}, "ssl_context='x' is not allowed: pass an ssl.SSLContext"),
        (
            {"security_protocol": "SSL", "ssl_cafile": "a", "ssl_keystore_location": "b"},
            "ssl_cafile and ssl_keystore_location exclude each other",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/nowhere", "ssl_truststore_type": "PEM"},
            "the client: ssl.truststore.location=/nowhere: No such file",
        ),
    ],
)
def test_settings_that_do_not_work_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(sentence)) as refused:
        client_security(given)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (jaas(SCRAM_MODULE), f"names the class {SCRAM_MODULE}, and PLAIN needs {PLAIN_MODULE}"),
        (jaas(PLAIN_MODULE)[:-1], "the client: sasl.jaas.config: the login module does not end with ';'"),
        (jaas(PLAIN_MODULE, user=""), "the user or the password of PLAIN is missing"),
        (jaas(PLAIN_MODULE, password=""), "the user or the password of PLAIN is missing"),
    ],
)
def test_a_jaas_line_that_is_not_that_of_the_mechanism_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(sentence)) as refused:
        token({"sasl_mechanism": "PLAIN", "sasl_jaas_config": line})
    assert "canary" not in str(refused.value)


def test_a_client_passes_its_security_to_its_connections_and_shows_no_secret() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas(PLAIN_MODULE)}
    settings = producer_settings({"bootstrap_servers": "localhost", **given})
    security = node_settings(settings, 5).security
    assert security.tls is None
    assert security.sasl is not None
    assert "canary" not in repr(settings) + repr(security)
    assert producer_settings({"bootstrap_servers": "localhost"}).security is PLAINTEXT
    with pytest.raises(InvalidSetting, match="there is no setting 'security'"):
        producer_settings({"bootstrap_servers": "localhost", "security": security})


def test_other_settings_are_left_alone() -> None:
    assert split_security({"ssl_x": 1, "proxy_url": 2, "acks": 3}) == ({"ssl_x": 1, "proxy_url": 2}, {"acks": 3})
