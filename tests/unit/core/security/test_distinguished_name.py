"""Tests of the names of certificates' subjects. The expected names are those that Java 21 returned."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from pykbroker.core.security.certificate import MalformedCertificate, certificate
from pykbroker.core.security.distinguished_name import distinguished_name
from tests.unit.world.tls_ends import authority

CN, OU, ORG, C = NameOID.COMMON_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.ORGANIZATION_NAME, NameOID.COUNTRY_NAME


def name(*relative: tuple[tuple[x509.ObjectIdentifier, str], ...]) -> bytes:
    """Return a name in DER, which has the attributes of each relative name in one set."""
    names = [
        x509.RelativeDistinguishedName(x509.NameAttribute(kind, text, _validate=False) for kind, text in attributes)
        for attributes in relative
    ]
    return x509.Name(names).public_bytes()


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ([], ""),
        ([[(C, "DE")], [(ORG, "Acme, Inc.")], [(OU, "R+D")], [(CN, "alice")]], r"CN=alice,OU=R\+D,O=Acme\, Inc.,C=DE"),
        ([[(CN, ' b"o\\b; <x>')]], r"CN=\ b\"o\\b\; \<x\>"),
        ([[(CN, "#hash "), (OU, "multi")]], r"OU=multi+CN=\#hash\ "),
        ([[(CN, "  \r")]], "CN=\\ \\ \\\r"),
        ([[(CN, "a=b\0c")]], r"CN=a\=b\00c"),
        ([[(CN, "Zoë €😀")]], "CN=Zoë €😀"),
        ([[(NameOID.SERIAL_NUMBER, "42")]], "2.5.4.5=#13023432"),
        (
            [
                [(NameOID.DOMAIN_COMPONENT, "org")],
                [(NameOID.DOMAIN_COMPONENT, "example")],
                [(NameOID.USER_ID, "u1")],
                [(NameOID.EMAIL_ADDRESS, "b@example.org")],
            ],
            "1.2.840.113549.1.9.1=#160d62406578616d706c652e6f7267,UID=u1,DC=example,DC=org",
        ),
        (
            [[(NameOID.LOCALITY_NAME, "L"), (NameOID.STATE_OR_PROVINCE_NAME, "S"), (NameOID.STREET_ADDRESS, "way")]],
            "L=L+ST=S+STREET=way",
        ),
    ],
)
def test_names_are_those_of_java(relative, expected) -> None:
    assert distinguished_name(name(*relative)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1e040041005a", r"CN=\00A\00Z"),  # a BMPString
        ("1c0400000041", "CN=#1c0400000041"),  # a UniversalString
        ("1402e441", "CN=\ufffdA"),  # a T61String in Latin-1
        ("1b0141", "CN=A"),
        ("1200", "CN=#1200"),
        ("020159", "CN=#020159"),
        ("1303210d0a", "CN=!\r\n"),
    ],
)
def test_values_of_other_types_are_read_as_java_reads_them(value: str, expected: str) -> None:
    encoded = bytes.fromhex(value)
    attribute = b"\x30" + bytes([5 + len(encoded)]) + b"\x06\x03\x55\x04\x03" + encoded
    relative = b"\x31" + bytes([len(attribute)]) + attribute
    assert distinguished_name(b"\x30" + bytes([len(relative)]) + relative) == expected


def test_an_oid_of_the_third_arc_and_a_long_value() -> None:
    value = b"\x04\x81\x80" + bytes(128)
    attribute = b"\x30\x81\x88\x06\x03\x88\x37\x01" + value
    relative = b"\x31\x81\x8b" + attribute
    assert distinguished_name(b"\x30\x81\x8e" + relative) == "2.999.1=#" + value.hex()


def test_the_subject_of_a_certificate_is_found() -> None:
    pem = authority("ours").issue_cert("alice", common_name="alice").cert_chain_pems[0].bytes()
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert certificate(der).name.startswith("CN=alice,")


@pytest.mark.parametrize("der", [b"", b"\x30", b"\x30\x03\x30\x01\x00", b"-----BEGIN", bytes(100)])
def test_bytes_that_are_no_certificate_are_refused(der: bytes) -> None:
    with pytest.raises(MalformedCertificate):
        certificate(der)
