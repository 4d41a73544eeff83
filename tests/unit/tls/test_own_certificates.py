"""Tests of the certificates that a broker makes for itself: when they are made, and what they are."""

from __future__ import annotations

import builtins
import errno
import os
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.address import Address
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.security.own_certificates import (
    AUTHORITY,
    AUTHORITY_KEY,
    AUTHORITY_LIFE_DAYS,
    DAY_S,
    KEYSTORE,
    LIFE_DAYS,
    RENEWED_DAYS,
    hosts_of,
)
from pykbroker.core.security.protocol import SecurityProtocol
from pykbroker.tls.own_certificates import keep_certificates, kept_certificates

NOW = float(int(time.time()))  # a certificate has whole seconds
HOSTS = frozenset({"broker1", "127.0.0.1", "::1"})
MINUTE_S = 60


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def changed(directory: Path, hosts: frozenset[str], now: float) -> set[str]:
    """Return the names of the files that a start at this time writes."""
    before = contents(directory)
    made = keep_certificates(str(directory), hosts, now)
    after = contents(directory)
    found = {name for name, content in after.items() if before.get(name) != content}
    assert made == bool(found)
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    assert changed(tmp_path, HOSTS, NOW) == {AUTHORITY, AUTHORITY_KEY, KEYSTORE}
    return tmp_path


def test_the_hosts_are_those_of_listeners_with_tls_and_those_of_this_machine() -> None:
    local = {"localhost", "127.0.0.1", "::1", "machine"}
    secured = ListenerSettings(
        "A", Address("10.0.0.1", 9092), Address("Kafka.Example.org.", 9092), SecurityProtocol.SASL_SSL
    )
    everywhere = ListenerSettings("B", Address("0.0.0.0", 9093), None, SecurityProtocol.SSL)
    zoned = ListenerSettings("C", Address("fe80::1%eth0", 9094), None, SecurityProtocol.SSL)
    plain = ListenerSettings("D", Address("10.0.0.2", 9095))
    found = hosts_of([secured, everywhere, zoned, plain], "Machine")
    assert found == local | {"10.0.0.1", "kafka.example.org", "fe80::1"}
    assert hosts_of([plain], "rechner-für-alles") == local - {"machine"}


def test_the_certificate_is_trusted_for_each_host_and_only_the_user_reads_the_keys(directory: Path) -> None:
    modes = {path.name: os.stat(path).st_mode & 0o777 for path in directory.iterdir()}
    assert modes == {AUTHORITY: 0o644, AUTHORITY_KEY: 0o600, KEYSTORE: 0o600}
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / KEYSTORE)
    client = ssl.create_default_context(cafile=str(directory / AUTHORITY))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    for host in HOSTS:
        assert handshake(server, client, host) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="broker2"):
        handshake(server, client, "broker2")


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str | None:
    """Return the version of TLS of a connection to this host."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True)]
    waiting = list(ends)
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    return ends[0].version()


def test_a_later_start_reuses_the_certificate_until_it_expires_soon(directory: Path) -> None:
    last = NOW + (LIFE_DAYS - RENEWED_DAYS) * DAY_S
    assert changed(directory, HOSTS, last) == set()
    assert changed(directory, HOSTS, last + 1) == {KEYSTORE}
    of_authority = NOW + (AUTHORITY_LIFE_DAYS - LIFE_DAYS) * DAY_S
    assert changed(directory, HOSTS, of_authority - 1) == {KEYSTORE}
    assert changed(directory, HOSTS, of_authority + LIFE_DAYS * DAY_S) == {AUTHORITY, AUTHORITY_KEY, KEYSTORE}


def test_other_hosts_need_another_certificate_of_the_same_authority(directory: Path) -> None:
    assert changed(directory, HOSTS - {"broker1"}, NOW) == set()
    more = HOSTS | {"broker2"}
    assert changed(directory, more, NOW) == {KEYSTORE}
    kept = kept_certificates(str(directory), str(directory))
    assert kept is not None
    assert kept[0].hosts == more


def test_brokers_of_one_authority_have_a_certificate_and_a_name_each(tmp_path: Path) -> None:
    for number in (1, 2):
        place = tmp_path / str(number)
        place.mkdir()
        assert keep_certificates(str(place), HOSTS, NOW, authority=str(tmp_path), name=f"broker-{number}")
        assert not keep_certificates(str(place), HOSTS, NOW, authority=str(tmp_path), name=f"broker-{number}")
        own, authority = kept_certificates(str(place), str(tmp_path)) or (None, None)
        assert own is not None
        assert authority is not None
        assert (own.name, own.issuer) == (f"CN=broker-{number}", authority.subject)
    assert contents(tmp_path / "1").keys() == {KEYSTORE}
    assert {path.name for path in tmp_path.iterdir()} == {AUTHORITY, AUTHORITY_KEY, "1", "2"}


@pytest.mark.parametrize(
    ("name", "content", "written"),
    [
        (KEYSTORE, None, {KEYSTORE}),
        (KEYSTORE, b"-----BEGIN", {KEYSTORE}),
        (AUTHORITY_KEY, None, set()),
        (AUTHORITY, None, {AUTHORITY, AUTHORITY_KEY, KEYSTORE}),
        (AUTHORITY, b"", {AUTHORITY, AUTHORITY_KEY, KEYSTORE}),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_made_again(
    directory: Path, name: str, content: bytes | None, written: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    assert changed(directory, HOSTS, NOW) == written
    assert ("another authority takes its place" in caplog.text) == (name == AUTHORITY and content is not None)


def test_an_authority_that_this_user_may_not_read_is_kept(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("pykbroker.tls.signing.read_store", refuse)
    before = contents(directory)
    with pytest.raises(StartError, match=rf"cannot read or write {directory}/{AUTHORITY} \(Permission denied\)"):
        keep_certificates(str(directory), HOSTS | {"broker2"}, NOW)
    assert contents(directory) == before


def test_a_crash_after_the_key_of_an_authority_leads_to_a_new_authority(
    directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    keep_certificates(str(other), HOSTS, NOW)
    (directory / AUTHORITY_KEY).write_bytes((other / AUTHORITY_KEY).read_bytes())
    (directory / KEYSTORE).unlink()
    before = (directory / AUTHORITY).read_bytes()
    assert keep_certificates(str(directory), HOSTS, NOW)
    assert (directory / AUTHORITY).read_bytes() != before
    assert f"{directory}/{AUTHORITY}: another authority takes its place, which clients have to trust" in caplog.text


def test_without_cryptography_a_start_reuses_a_certificate_but_makes_none(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("cryptography") or "signing" in (arguments[2:3] or [()])[0]:
            raise ImportError(name)
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert not keep_certificates(str(directory), HOSTS, NOW + MINUTE_S)
    with pytest.raises(StartError, match=r"needs the package cryptography: pip install 'pykbroker\[security\]'"):
        keep_certificates(str(directory), HOSTS | {"broker2"}, NOW + MINUTE_S)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        StartError, match=rf"this user cannot read or write {tmp_path}/none/{AUTHORITY_KEY}.tmp \(No such"
    ):
        keep_certificates(str(tmp_path / "none"), HOSTS, NOW)
