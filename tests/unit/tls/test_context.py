"""Tests of the contexts of listeners: every kind of store, and each mistake with its sentence."""

from __future__ import annotations

import builtins
import os
import ssl
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate

from pykbroker.core.config.listener_configs import ListenerConfigs
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.config.tls_settings import TlsSettings, TlsStore, tls_settings
from pykbroker.core.errors import StartError
from pykbroker.core.security import iterations
from pykbroker.core.security.certificate import certificate
from pykbroker.core.security.der import content, values
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.core.security.secret import Secret
from pykbroker.tls.context import TlsContext, key_problem, server_context
from pykbroker.tls.stores import read_trusted
from pykbroker.world.tls_files import STORE_BYTES_MAX
from tests.unit.world.tls_ends import CURVE, Ends, authority, client_context, ends

NOW = datetime.now(UTC)
SECURE = ListenerSettings("SECURE", protocol=SecurityProtocol.SSL)
OURS = "ours"


@cache
def issued(*, not_before: int = -1, not_after: int = 1, host: str = "localhost") -> trustme.LeafCert:
    return authority(OURS).issue_cert(
        host, key_type=CURVE, not_before=NOW + timedelta(days=not_before), not_after=NOW + timedelta(days=not_after)
    )


def key_of(cert: trustme.LeafCert) -> str:
    return cert.private_key_pem.bytes().decode()


def chain_of(cert: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in cert.cert_chain_pems)


def encrypted(cert: trustme.LeafCert, password: str) -> str:
    key = load_pem_private_key(key_of(cert).encode(), None)
    encryption = BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()


def ca_pem() -> str:
    return authority(OURS).cert_pem.bytes().decode()


def pkcs12(cert: trustme.LeafCert, password: str) -> bytes:
    key: Any = load_pem_private_key(key_of(cert).encode(), None)
    own = load_pem_x509_certificate(cert.cert_chain_pems[0].bytes())
    signer = load_pem_x509_certificate(ca_pem().encode())
    return serialize_key_and_certificates(b"broker", key, own, [signer], BestAvailableEncryption(password.encode()))


def truststore(password: str) -> bytes:
    signer = PKCS12Certificate(load_pem_x509_certificate(ca_pem().encode()), b"ca")
    return serialize_java_truststore([signer], BestAvailableEncryption(password.encode()))


class House:
    """Files of one test, and the configs that name them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.texts: dict[str, str] = {}

    def write(self, name: str, content: str | bytes) -> str:
        path = self._directory / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def set(self, **texts: str) -> House:
        """Set configs, whose names have underscores for dots and no `ssl`."""
        self.texts |= {f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()}
        return self

    def pem(self, content: str) -> House:
        return self.set(keystore_type="PEM", keystore_location=self.write("broker.pem", content))

    @property
    def settings(self) -> TlsSettings:
        return tls_settings("SECURE", ListenerConfigs(self.texts, SECURE))

    def context(self) -> TlsContext:
        return server_context(self.settings, NOW.timestamp())

    def connect(self, client: ssl.SSLContext | None = None) -> Ends:
        with ends(client, self.context().context) as both:
            return both

    def refusal(self) -> str:
        with pytest.raises(StartError) as refused:
            self.context()
        assert str(refused.value).startswith("SECURE: ")
        return str(refused.value)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.mark.parametrize("kind", ["file", "encrypted", "inline", "one line", "PKCS12", "JKS"])
def test_a_keystore_of_every_kind_is_served(house: House, kind: str) -> None:
    cert = issued()
    if kind == "file":
        house.pem(key_of(cert) + chain_of(cert))
    elif kind == "encrypted":
        house.pem(chain_of(cert) + encrypted(cert, "secret")).set(key_password="secret")
    elif kind in ("inline", "one line"):
        key, chain = key_of(cert), chain_of(cert)
        if kind == "one line":
            key, chain = key.replace("\n", " "), chain.replace("\n", " ")
        house.set(keystore_type="PEM", keystore_key=key, keystore_certificate_chain=chain)
    else:
        path = house.write("keys.p12", pkcs12(cert, "secret"))
        house.set(keystore_type=kind, keystore_location=path, keystore_password="secret")
    assert house.connect().tls.certificates == [None]
    assert house.context().certificate.is_for("localhost")


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_white_space_around_a_password_is_none_of_it(house: House, kind: str) -> None:
    """A file of a config provider ends in a line end as a rule."""
    cert = issued()
    if kind == "PEM":
        house.pem(chain_of(cert) + encrypted(cert, "secret")).set(key_password=" secret\n")
    else:
        path = house.write("keys.p12", pkcs12(cert, "secret"))
        house.set(keystore_location=path, keystore_password="secret\n")
    house.connect()


@pytest.mark.parametrize("trusts", ["intermediate", "leaf"])
def test_a_certificate_to_trust_needs_no_authority(house: House, trusts: str) -> None:
    intermediate = trustme.CA(parent_cert=authority("root of others"), key_type=CURVE)
    alice = intermediate.issue_cert("alice", key_type=CURVE)
    trusted = intermediate.cert_pem if trusts == "intermediate" else alice.cert_chain_pems[0]
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=ca_pem())
    alice.configure_cert(client)
    house.pem(key_of(issued()) + chain_of(issued())).set(client_auth="required", truststore_type="PEM")
    house.set(truststore_certificates=trusted.bytes().decode())
    (certificate,) = house.connect(client).tls.certificates
    assert certificate is not None
    assert house.connect(client_context(signed_by=OURS)).tls.certificates == []


@pytest.mark.parametrize("kind", ["file", "inline", "PKCS12", "JKS"])
def test_a_truststore_of_every_kind_decides_who_may_connect(house: House, kind: str) -> None:
    house.pem(key_of(issued()) + chain_of(issued())).set(client_auth="required")
    if kind == "file":
        house.set(truststore_type="PEM", truststore_location=house.write("ca.pem", ca_pem()))
    elif kind == "inline":
        house.set(truststore_type="PEM", truststore_certificates=ca_pem())
    else:
        path = house.write("trust.p12", truststore("secret"))
        house.set(truststore_type=kind, truststore_location=path, truststore_password="secret")
    (certificate,) = house.connect(client_context(signed_by=OURS)).tls.certificates
    assert certificate is not None
    with pytest.raises(ssl.SSLError, match="ALERT"):
        house.connect(client_context(ssl.TLSVersion.TLSv1_2, signed_by="a stranger"))


def test_a_client_may_show_a_certificate_that_is_only_requested(house: House) -> None:
    house.pem(key_of(issued()) + chain_of(issued())).set(
        client_auth="requested", truststore_type="PEM", truststore_certificates=ca_pem()
    )
    assert house.connect().tls.certificates == [None]
    assert None not in house.connect(client_context(signed_by=OURS)).tls.certificates


@pytest.mark.parametrize(
    ("texts", "versions", "cipher"),
    [
        ({}, "TLSv1.2 TLSv1.3", None),
        ({"enabled_protocols": ""}, "TLSv1.2 TLSv1.3", None),
        ({"enabled_protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"enabled_protocols": "TLSv1.1,TLSv1.3"}, "TLSv1.3", None),
        ({"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"cipher_suites": "TLS_AES_256_GCM_SHA384"}, "TLSv1.3", None),
        ({"cipher_suites": "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384,TLS_AES_256_GCM_SHA384"}, "TLSv1.3", None),
    ],
)
def test_versions_and_cipher_suites_are_those_of_the_configs(
    house: House, texts: dict[str, str], versions: str, cipher: str | None
) -> None:
    house.pem(key_of(issued()) + chain_of(issued())).set(**texts)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        if version.name.replace("v1_", "v1.") in versions:
            used = house.connect(client_context(version)).client.cipher()
            assert used is not None
            assert cipher in (None, used[0])
        else:
            with pytest.raises(ssl.SSLError, match="ALERT"):
                house.connect(client_context(version))


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({}, "ssl.keystore.location is missing"),
        ({"keystore_location": "/nowhere/keys"}, "ssl.keystore.location=/nowhere/keys: No such file"),
        ({"keystore_type": "BCFKS", "keystore_location": "x"}, "ssl.keystore.type=BCFKS is unknown"),
        (
            {"keystore_type": "PEM", "keystore_location": "x", "keystore_password": "s"},
            "ssl.keystore.password has no place",
        ),
        ({"keystore_key": "k"}, "belong together"),
        ({"keystore_key": "k", "keystore_certificate_chain": "c"}, "set ssl.keystore.type=PEM"),
        (
            {"keystore_key": "k", "keystore_certificate_chain": "c", "keystore_type": "PEM", "keystore_location": "x"},
            "exclude each other",
        ),
        ({"keystore_location": "x", "client_auth": "required"}, "needs certificates to trust"),
        ({"keystore_location": "x", "enabled_protocols": "TLSv1"}, "leaves no version of TLS"),
        ({"keystore_location": "x", "enabled_protocols": "TLSv9"}, "TLSv9 is unknown"),
        (
            {"keystore_location": "x", "cipher_suites": "TLS_RSA_WITH_RC4_128_MD5"},
            "TLS_RSA_WITH_RC4_128_MD5 is unknown",
        ),
        (
            {"keystore_location": "x", "cipher_suites": "TLS_AES_128_GCM_SHA256", "enabled_protocols": "TLSv1.2"},
            "leaves no version of TLS with these ssl.cipher.suites",
        ),
        ({"keystore_location": "x", "principal_mapping_rules": "nobody"}, "ssl.principal.mapping.rules"),
    ],
)
def test_configs_that_contradict_each_other_are_refused(house: House, texts: dict[str, str], sentence: str) -> None:
    assert sentence in house.set(**texts).refusal()


def test_a_key_that_does_not_fit_is_refused(house: House) -> None:
    refusal = house.pem(key_of(issued()) + chain_of(issued(host="other"))).refusal()
    assert "broker.pem: the private key does not belong to the first certificate" in refusal


@pytest.mark.parametrize(
    ("reason", "advice"), [("EE_KEY_TOO_SMALL", "with a longer key"), ("CA_MD_TOO_WEAK", "that is signed with SHA-256")]
)
def test_a_weak_certificate_is_refused_with_what_to_do_about_it(reason: str, advice: str) -> None:
    error = ssl.SSLError(1, "weak")
    error.reason = reason
    assert key_problem(error, given=False).endswith(f"as too weak ({reason}): make one {advice}")


@pytest.mark.parametrize("password", [None, "wrong", "wrong" * 205])
def test_a_key_without_its_password_is_refused(house: House, password: str | None) -> None:
    house.pem(encrypted(issued(), "right") + chain_of(issued()))
    if password is not None:
        house.set(key_password=password)
    refusal = house.refusal()
    assert "ssl.key.password" in refusal
    assert "wrong" not in refusal


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_store_that_would_take_too_long_to_decrypt_is_refused(
    house: House, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "PEM":
        key = encrypted(issued(), "right")
        der = b64decode("".join(key.split("\n")[1:-2]))
        house.pem(key + chain_of(issued())).set(key_password="right")
    else:
        der = pkcs12(issued(), "right")
        house.set(keystore_location=house.write("keys.p12", der), keystore_password="right")
    needed = sum(iterations.iterations(der))
    monkeypatch.setattr(iterations, "ITERATIONS_MAX", needed)
    house.context()
    monkeypatch.setattr(iterations, "ITERATIONS_MAX", needed - 1)
    assert f"its password has more than {needed - 1:,} iterations: write it again" in house.refusal()


def test_an_encrypted_key_that_is_cut_off_is_refused(house: House) -> None:
    key = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMDA=\n-----END ENCRYPTED PRIVATE KEY-----\n"
    assert "broker.pem: it is not encoded in DER" in house.pem(key + chain_of(issued())).refusal()


@pytest.mark.parametrize("password", [None, "guess", "guess\0"])
def test_a_store_without_its_password_is_refused(house: House, password: str | None) -> None:
    house.set(keystore_location=house.write("keys.p12", pkcs12(issued(), "right")))
    if password is not None:
        house.set(keystore_password=password)
    refusal = house.refusal()
    assert "keys.p12: ssl.keystore.password" in refusal
    assert "guess" not in refusal


@pytest.mark.parametrize(
    ("days", "sentence"), [((-2, -1), "expired on"), ((1, 2), "is valid only from")], ids=["expired", "not yet valid"]
)
def test_a_certificate_that_is_not_valid_now_is_refused(house: House, days: tuple[int, int], sentence: str) -> None:
    cert = issued(not_before=days[0], not_after=days[1])
    assert sentence in house.pem(key_of(cert) + chain_of(cert)).refusal()


def test_a_chain_with_a_gap_is_refused_and_a_whole_one_served(house: House) -> None:
    child = authority(OURS).create_child_ca(key_type=CURVE)
    cert = child.issue_cert("localhost", key_type=CURVE)
    leaf, between = (blob.bytes().decode() for blob in cert.cert_chain_pems)
    assert "the chain is incomplete" in house.pem(key_of(cert) + leaf + ca_pem()).refusal()
    house.pem(key_of(cert) + leaf + between + ca_pem()).connect()


@pytest.mark.parametrize(
    ("kind", "content", "sentence"),
    [
        ("JKS", b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "keytool -importkeystore -srckeystore"),
        ("PEM", b"\x30\x82\x01\x00", "this is a PKCS12 file"),
        ("PKCS12", b"-----BEGIN PRIVATE KEY-----", "ssl.keystore.type is PKCS12"),
        ("PEM", b"\xff\xfe", "this is no text"),
        ("PEM", b"", "there is no private key"),
        ("PEM", b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", "no base64"),
        (
            "PEM",
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMDA\n-----END ENCRYPTED PRIVATE KEY-----\n"
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "a key is no base64: copy the file again",
        ),
        (
            "PEM",
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "cannot be decoded",
        ),
        ("PKCS12", b"\x30\x03\x02\x01\x03", "ssl.keystore.password is missing or the file is damaged"),
    ],
)
def test_a_file_of_another_kind_is_refused(house: House, kind: str, content: bytes, sentence: str) -> None:
    house.set(keystore_type=kind, keystore_location=house.write("store", content))
    refusal = house.refusal()
    assert sentence in refusal
    assert "store" in refusal


def test_a_truststore_in_place_of_a_keystore_and_an_empty_one_are_refused(house: House) -> None:
    house.set(keystore_location=house.write("trust.p12", truststore("s")), keystore_password="s")
    assert "there is no private key with a certificate" in house.refusal()
    house.texts.clear()
    house.pem(key_of(issued()) + chain_of(issued())).set(
        truststore_type="PEM", truststore_certificates=key_of(issued())
    )
    refusal = house.refusal()
    assert "there is no certificate to trust" in refusal
    assert key_of(issued())[30:60] not in refusal


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ((b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x0c"), "ssl.keystore.password is missing or the file is damaged"),
        ((b"\x55\x04\x0a\x0c", b"\x55\x04\x0a\x1d"), "a certificate cannot be decoded: write it again"),
    ],
    ids=["version", "issuer"],
)
def test_a_pkcs12_store_with_a_damaged_certificate_is_refused(
    house: House, damage: tuple[bytes, bytes], reason: str
) -> None:
    key: Any = load_pem_private_key(key_of(issued()).encode(), None)
    own = load_pem_x509_certificate(issued().cert_chain_pems[0].bytes())
    data = serialize_key_and_certificates(b"broker", key, own, None, NoEncryption())
    *unchecked, _mac = values(content(data))
    damaged = b"".join(unchecked).replace(*damage, 1)
    assert damaged not in data
    house.set(keystore_location=house.write("keys.p12", b"\x30\x82" + len(damaged).to_bytes(2) + damaged))
    with pytest.raises(StartError, match=reason):
        server_context(house.settings, NOW.timestamp())


def test_a_pkcs12_store_without_cryptography_names_the_extra(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.set(keystore_location=house.write("keys.p12", pkcs12(issued(), "s")), keystore_password="s")
    imports = builtins.__import__

    def missing(name: str, *words: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imports(name, *words)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert "pip install 'pykbroker[security]'" in house.refusal()


@pytest.mark.parametrize("lacks", ["memfd_create", "/proc"])
def test_no_key_stays_in_a_file(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if lacks == "/proc":
        monkeypatch.setattr("pykbroker.world.tls_files.OWN_FILES", "/nowhere")
    else:
        monkeypatch.delattr(os, lacks, raising=False)
    house.set(keystore_type="PEM", keystore_key=key_of(issued()), keystore_certificate_chain=chain_of(issued()))
    house.connect()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_only_a_regular_file_of_limited_size_is_read(house: House, tmp_path: Path, kind: str) -> None:
    house.set(keystore_type=kind, keystore_location=str(tmp_path / "store"))
    os.mkfifo(tmp_path / "store")
    assert "store: it is not a regular file: name a file" in house.refusal()
    os.unlink(tmp_path / "store")
    for size, is_read in ((STORE_BYTES_MAX - 1, True), (STORE_BYTES_MAX, True), (STORE_BYTES_MAX + 1, False)):
        house.write("store", b"")
        os.truncate(tmp_path / "store", size)
        assert ("store: it has more than 16777216 bytes" in house.refusal()) != is_read


def test_a_truststore_with_a_key_trusts_what_java_trusts(house: House) -> None:
    """The names of the certificates are those that keytool writes, and Java trusts those that are expected."""
    cert = issued()
    key: Any = load_pem_private_key(key_of(cert).encode(), None)
    own = load_pem_x509_certificate(cert.cert_chain_pems[0].bytes())
    signer, entry, unnamed = (
        load_pem_x509_certificate(authority(name).cert_pem.bytes()) for name in (OURS, "an entry", "without a name")
    )
    subject = certificate(signer.public_bytes(Encoding.DER)).name.encode()
    named = ((signer, subject), (entry, b"an alias"), (unnamed, None))
    others = [PKCS12Certificate(*each) for each in named]
    data = serialize_key_and_certificates(b"broker", key, own, others, BestAvailableEncryption(b"secret"))
    path = house.write("mixed.p12", data)
    store = TlsStore("SECURE: ssl.truststore.location", "PKCS12", path, password=Secret("secret"))
    assert read_trusted(store) == tuple(each.public_bytes(Encoding.DER) for each in (own, entry))


def test_secrets_are_in_no_repr(house: House) -> None:
    house.set(keystore_type="PEM", keystore_key=key_of(issued()), keystore_certificate_chain=chain_of(issued()))
    house.set(key_password="canary")
    text = repr(house.settings)
    assert "canary" not in text
    assert "PRIVATE KEY" not in text
