"""The credential of an option, such as `SCRAM-SHA-256=[name=bob,password=secret]` in `kafka-storage --add-scram`.

Values may be in double quotes. Source: KIP-900, ScramParser of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

from pykbroker.core.new_user import NAME_CHARACTERS_MAX
from pykbroker.core.security.sasl.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_HASHES,
    ScramHash,
    salted_credential,
    scram_credential,
)
from wire.stored.metadata_security import UserScramCredentialRecord

KEYS = ("name", "password", "saltedpassword", "salt", "iterations")


def parse_scram_option(text: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Return the record of the credential. Raise ValueError, whose text has no value of the option.

    `new_salt` returns a random salt, for an option without one.
    """
    name, _, fields = text.partition("=")
    of = SCRAM_HASHES.get(name.strip())
    if of is None:
        raise ValueError(
            f"a credential begins with one of {', '.join(SCRAM_HASHES)}: write SCRAM-SHA-256=[name=…,password=…]"
        )
    fields = fields.strip()
    if not (fields.startswith("[") and fields.endswith("]")):
        raise ValueError(f"{of.mechanism} is followed by =[name=…,password=…]")
    values = dict[str, str]()
    for field in filter(None, map(str.strip, fields[1:-1].split(","))):
        key, is_set, value = (part.strip() for part in field.partition("="))
        if key not in KEYS or not is_set or key in values:
            raise ValueError(f"{of.mechanism}=[…] takes {', '.join(KEYS)}, each once and with a value")
        values[key] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return record_of(of, values, new_salt)


def record_of(of: ScramHash, values: dict[str, str], new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Return the record of these values by key. Raise ValueError if they make no credential."""
    name, password, salted = values.get("name"), values.get("password"), values.get("saltedpassword")
    if not name:
        raise ValueError(f"{of.mechanism}=[…] has no name")
    if len(name.encode(errors="replace")) > NAME_CHARACTERS_MAX:
        raise ValueError(f"{of.mechanism}=[…] has a name of more than {NAME_CHARACTERS_MAX:,} characters")
    if bool(password) == bool(salted):
        raise ValueError(f"{of.mechanism}=[name={name},…] has one of password and saltedpassword")
    if salted and "salt" not in values:
        raise ValueError(f"{of.mechanism}=[name={name},…] has a saltedpassword without its salt")
    try:
        iterations = int(values.get("iterations", ITERATIONS_MIN))
        salt = b64decode(values["salt"], validate=True) if "salt" in values else new_salt()
        key = b64decode(salted or "", validate=True)
    except ValueError:
        raise ValueError(
            f"{of.mechanism}=[name={name},…]: iterations is a number, and salt and saltedpassword are in base64"
        ) from None
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        allowed = f"{ITERATIONS_MIN} to {ITERATIONS_MAX}"
        raise ValueError(f"{of.mechanism}=[name={name},…]: iterations is {iterations}, not {allowed}")
    if password:
        made = scram_credential(of, password, salt, iterations)
    else:
        made = salted_credential(of, key, salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=of.number,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )
