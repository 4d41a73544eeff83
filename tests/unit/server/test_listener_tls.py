"""Tests of a listener's TLS: principals of certificates, and one log line for each peer and cause."""

from __future__ import annotations

import ssl
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from pykbroker.core.security.session import ANONYMOUS, Session
from pykbroker.server.authentications import Authentications
from pykbroker.server.listener_tls import ListenerTls, cause_of
from pykbroker.server.strangers import Strangers
from tests.unit.tls.test_context import NOW, OURS, House, ca_pem, chain_of, issued, key_of
from tests.unit.world.tls_ends import Taker, authority, client_context, ends


class Client(Taker):
    """A connection with a session."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        super().__init__()
        self.session = Session(host, 4711, "127.0.0.1", 9093, "SECURE", 0)


@pytest.fixture
def house(tmp_path: Path) -> House:
    house = House(tmp_path).pem(key_of(issued()) + chain_of(issued()))
    return house.set(client_auth="requested", truststore_type="PEM", truststore_certificates=ca_pem())


def tls_of(house: House, *, names_principals: bool = True) -> ListenerTls:
    return ListenerTls(house.settings, NOW.timestamp(), Strangers(lambda: 0), names_principals=names_principals)


def connected(tls: ListenerTls, client: ssl.SSLContext, connection: Client | None = None) -> Client:
    """Let a client connect, and return its connection."""
    connection = connection or Client()
    with ends(client, shaken=False, tls=tls, connection=connection) as both:
        try:
            both.shake()
        except ssl.SSLError:
            both.send(both.outgoing.read())
    return connection


def test_a_certificate_names_the_principal(house: House) -> None:
    session = connected(tls_of(house), client_context(signed_by=OURS)).session
    assert session.principal.startswith("User:OU=Testing cert")
    assert session.client_port == 4711
    house.set(principal_mapping_rules="RULE:^OU=Testing cert(.*)$/alice/,DEFAULT")
    assert connected(tls_of(house), client_context(signed_by=OURS)).session.principal == "User:alice"


def test_without_a_certificate_or_with_sasl_it_is_nobody(house: House) -> None:
    assert connected(tls_of(house), client_context()).session.principal == ANONYMOUS
    sasl = tls_of(house, names_principals=False)
    assert connected(sasl, client_context(signed_by=OURS)).session.principal == ANONYMOUS


@pytest.mark.parametrize("group", ["X25519", "prime256v1", "secp384r1", "ffdhe2048", "ffdhe8192"])
@pytest.mark.parametrize("sizes", [1, 100, 1 << 20])
def test_keys_are_exchanged_on_curves_only(house: House, group: str, sizes: int) -> None:
    tls, client = tls_of(house), client_context_of(group)
    is_slow = group.startswith("ffdhe")
    with ends(client, shaken=False, tls=tls, connection=Client()) as both:
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE") if is_slow else nullcontext():
            both.shake(sizes)
        assert both.taker.is_closed is is_slow
        assert (tls.counts.successes, tls.counts.failures) == (not is_slow, is_slow)


def client_context_of(group: str) -> ssl.SSLContext:
    """Return the context of a client that has one group of TLS 1.3."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    authority(OURS).configure_trust(context)
    context.set_ecdh_curve(group)
    return context


def test_a_name_that_no_rule_maps_is_disconnected(house: House, caplog: pytest.LogCaptureFixture) -> None:
    tls = tls_of(house.set(principal_mapping_rules="RULE:CN=nobody/x/"))
    others = client_context(ssl.TLSVersion.TLSv1_2, signed_by=OURS)  # has another certificate, with another name
    for client in (client_context(signed_by=OURS), others):
        assert connected(tls, client).is_closed
    (line,) = caplog.messages  # a name is no cause of its own, or a host could write a line for each
    assert "names no principal (no rule of ssl.principal.mapping.rules maps OU=Testing cert" in line


@pytest.mark.parametrize(
    ("client", "texts", "cause"),
    [
        (client_context(signed_by="a stranger"), {}, "is refused (unable to get local issuer certificate)"),
        (client_context(), {"client_auth": "required"}, "it shows no certificate, and ssl.client.auth is required"),
        (client_context(ssl.TLSVersion.TLSv1_2), {"enabled_protocols": "TLSv1.3"}, "no version of TLS in common"),
        (
            client_context(ssl.TLSVersion.TLSv1_2),
            {"cipher_suites": "TLS_RSA_WITH_AES_256_GCM_SHA384"},
            "it has no cipher suite in common",
        ),
        (ssl.create_default_context(), {}, "it does not trust the certificate of this listener"),
    ],
)
def test_a_failed_handshake_is_logged_once_for_each_peer_and_cause(
    house: House, client: ssl.SSLContext, texts: dict[str, str], cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    tls = tls_of(house.set(**texts))
    for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        connected(tls, client, Client(host))
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(" is no client")[0] for line in lines] == ["10.0.0.1:4711", "10.0.0.2:4711"]
    assert all(cause in line for line in lines)


@pytest.mark.parametrize(
    ("days", "advice"),
    [((-2, -1), "(certificate has expired): renew it"), ((1, 2), ": it is not valid yet: check the clock of this")],
)
def test_a_certificate_that_is_not_valid_now_is_logged_with_the_advice(
    house: House, days: tuple[int, int], advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_context.__wrapped__()
    issued(not_before=days[0], not_after=days[1], host="alice").configure_cert(client)
    connected(tls_of(house), client)
    assert advice in caplog.text


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (20, "add the one that has signed it to ssl.truststore.location of the listener"),
        (26, "make one for the use as a client: extendedKeyUsage=clientAuth"),
        (66, "make one with a longer key"),
        (68, "make one that is signed with SHA-256"),
    ],
)
def test_a_certificate_is_refused_with_what_to_do_about_it(code: int, advice: str) -> None:
    error = ssl.SSLCertVerificationError(1, "refused")
    error.verify_code, error.verify_message = code, "why"
    assert cause_of(error) == f"its certificate is refused (why): {advice}"


def test_a_plaintext_client_is_logged(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with ends(shaken=False, tls=tls_of(house), connection=Client()) as both:
        both.send(bytes(30))
    assert (
        "it does not speak TLS, and the listener does: set security.protocol=SSL in the client, or SASL_SSL if"
        in caplog.text
    )


def test_a_resumed_session_keeps_its_principal(house: House) -> None:
    tls, client = tls_of(house), client_context(signed_by=OURS)
    session = None
    for is_resumed in (False, True):
        connection = Client()
        with ends(client, shaken=False, tls=tls, connection=connection) as both:
            both.client = client.wrap_bio(both.incoming, both.outgoing, server_hostname="localhost", session=session)
            both.shake()
            connection.out.append(b"x")  # the ticket of TLS 1.3 comes before it
            both.pump.flush()
            assert both.read(1) == b"x"
            session = both.client.session
            assert both.client.session_reused == is_resumed
        assert connection.session.principal.startswith("User:OU=Testing cert")


@pytest.mark.parametrize(("version", "suite"), [("TLSv1_2", "TLS_ECDHE_"), ("TLSv1_3", "TLS_AES_256_GCM_SHA384")])
def test_a_session_has_the_version_of_tls_and_the_iana_name_of_the_cipher_suite(
    house: House, version: str, suite: str
) -> None:
    session = connected(tls_of(house), client_context(ssl.TLSVersion[version])).session
    assert session.tls is not None
    assert session.tls[0] == version.replace("_", ".")
    assert session.tls[1].startswith(suite)
    assert "WITH" in session.tls[1] or version == "TLSv1_3"


def test_handshakes_count_as_log_ins_where_there_is_no_sasl_and_failures_on_both(house: House) -> None:
    house.set(principal_mapping_rules="RULE:^nobody$/nobody/")
    for names_principals, counts in (
        (True, Authentications(successes=1, failures=2, successes_without_again=1)),
        (False, Authentications(failures=1)),
    ):
        tls = tls_of(house, names_principals=names_principals)
        connected(tls, client_context())
        with suppress(PermissionError):
            connected(tls, client_context(signed_by=OURS))
        connected(tls, ssl.create_default_context())
        assert tls.counts == counts
