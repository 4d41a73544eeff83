"""The rules of `ssl.principal.mapping.rules`, which make the name of a principal from that of a certificate (KIP-371).

1. A rule is DEFAULT, the whole name, or `RULE:pattern/replacement/`, which ends in L or U for lower or upper case. The
   first rule whose pattern matches the whole name decides.
2. As in Java's String.replaceAll, the replacement is put in for each match that a search finds, so that `.*` is
   replaced twice: for the name, and for the nothing behind it.
3. `$1` in a replacement is a group. Without such a group it is literal, unless the pattern has no group at all.

Patterns are those of Python, which differ from Java's in rare constructs. Source: SslPrincipalMapper of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from pykbroker.core.errors import StartError

RULES = "ssl.principal.mapping.rules"
RULE = r"(DEFAULT)|RULE:((\\.|[^\\/])*)\/((\\.|[^\\/])*)\/([LU]?).*?|(.*?)"
SPLITTER = re.compile(rf"\s*({RULE})\s*(?:,\s*|$)", re.ASCII)
PARSER = re.compile(RULE, re.ASCII)
REFERENCE = re.compile(r"\$(\d+)", re.ASCII)


class NoRule(Exception):
    """The error of a name that no rule maps."""


class MappingRule(msgspec.Struct, frozen=True):
    """A rule: a pattern, its replacement, and L or U for lower or upper case."""

    pattern: re.Pattern[str]
    replacement: str
    case: str = ""

    def name(self, distinguished_name: str) -> str | None:
        """Return the name of the principal, or None if the pattern does not match. Raise NoRule for a wrong group."""
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        replacement = literal_references(self.replacement, self.pattern.groups)
        found = self.pattern.sub(lambda match: "".join(expanded(replacement, match)), distinguished_name)
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class PrincipalMapping:
    """The rules of a listener. Raise StartError if they do not parse."""

    def __init__(self, text: str) -> None:
        self._rules = list(parsed(text))

    def name(self, distinguished_name: str) -> str:
        """Return the name of the principal. Raise NoRule if no rule maps it."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.name(distinguished_name)
            if name is not None:
                return name
        raise NoRule(f"no rule of {RULES} maps {distinguished_name}")


def parsed(text: str) -> Iterator[MappingRule | None]:
    """Yield the rules, None for DEFAULT. Raise StartError for one that does not parse."""
    for found in SPLITTER.finditer(text.strip()):
        rule = found[1]
        match = PARSER.match(rule)
        if match is None or match.end() != len(rule):
            raise StartError(
                f"{RULES}: {rule!r} is neither DEFAULT nor RULE:pattern/replacement/, with or without L or U"
            )
        if match[1] is not None:
            yield None
        elif match[2] is not None:
            try:
                yield MappingRule(re.compile(match[2], re.ASCII), match[4], match[6])
            except re.error as error:
                raise StartError(f"{RULES}: the pattern {match[2]!r} is wrong: {error}") from None


def literal_references(replacement: str, groups: int) -> str:
    """Return the replacement with a backslash before each reference to a group that the pattern does not have.

    Like Kafka, count positions in the replacement as it was given. A second such reference is therefore not escaped
    but the character before it is.
    """
    if not groups:
        return replacement
    escaped = replacement
    for found in REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        number = int(found[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            escaped = f"{escaped[: found.start()]}\\{escaped[found.start() :]}"
    return escaped


def expanded(replacement: str, match: re.Match[str]) -> Iterator[str]:
    """Yield the parts of a replacement, as Java expands it. Raise NoRule for a reference to no group."""
    pos, groups = 0, match.re.groups
    while pos < len(replacement):
        char = replacement[pos]
        pos += 1
        if char == "\\":
            if pos == len(replacement):
                raise NoRule(f"{RULES}: the replacement {replacement!r} ends in a backslash")
            yield replacement[pos]
            pos += 1
        elif char == "$":
            digits = re.compile(r"\d*", re.ASCII).match(replacement, pos)
            assert digits is not None
            text = digits[0]
            while len(text) > 1 and int(text) > groups:
                text = text[:-1]
            if not text or int(text) > groups:
                raise NoRule(f"{RULES}: the replacement {replacement!r} names a group that its pattern does not have")
            yield match[int(text)] or ""
            pos += len(text)
        else:
            yield char
