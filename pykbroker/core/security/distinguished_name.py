"""The distinguished name of a certificate's subject, as Java writes it: X500Principal.getName(), after RFC 2253.

Kafka's ACLs and rules for principals have names in exactly this form, which is neither that of OpenSSL nor RFC 4514:

1. The relative names come in reverse order, the parts of one in the order of the certificate.
2. Nine attributes have a keyword. All others are an OID with the value's DER in hex, as are values that are no string.
3. Of a string the characters `,=+<>#;"\\` are escaped everywhere, and spaces and carriage returns at both ends.
4. All strings are read as UTF-8, even a BMPString, whose zero bytes become `\\00`.

Sources: sun.security.x509.AVA and X500Name of OpenJDK 21.
"""

from __future__ import annotations

from re import ASCII, compile

from pykbroker.core.security.der import content, oid, values

KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
UTF8, PRINTABLE, T61, IA5, GENERAL, BMP = 12, 19, 20, 22, 27, 30
STRINGS = (UTF8, PRINTABLE, T61, IA5, GENERAL, BMP)
"""The tags of ASN.1 whose values are written as text."""
ESCAPED = compile(r'[,=+<>#;"\\]', ASCII)
OUTER = compile(r"^[ \r]+|[ \r]+\Z", ASCII)


def distinguished_name(name: bytes) -> str:
    """Return a name that is encoded in DER. Raise ValueError or IndexError if it is not."""
    return ",".join(reversed([relative_name(each) for each in values(content(name))]))


def relative_name(der: bytes) -> str:
    """Return a relative distinguished name."""
    return "+".join(attribute(each) for each in values(content(der)))


def attribute(der: bytes) -> str:
    """Return an attribute with its value."""
    kind, value = values(content(der))
    number = oid(content(kind))
    keyword = KEYWORDS.get(number)
    if keyword is None or value[0] not in STRINGS:
        return f"{keyword or number}=#{value.hex()}"
    text = ESCAPED.sub(r"\\\g<0>", content(value).decode(errors="replace")).replace("\0", "\\00")
    return f"{keyword}={OUTER.sub(lambda outer: ''.join(chr(92) + each for each in outer[0]), text)}"
