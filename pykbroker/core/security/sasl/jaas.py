"""The parser of `sasl.jaas.config`: the login module of one SASL mechanism, with its options.

A line is `<class> <flag> key=value key="value";`, in the tokens of Java's StreamTokenizer: words, strings in single or
double quotes with escapes, and comments that begin with a slash. Source: JaasConfig and JaasContext of Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pykbroker.core.security.secret import Secret

FLAGS = ("required", "requisite", "sufficient", "optional")

TOKEN = r"""[\x00-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\n]*       # white space and comments
    # a letter, _, $ or no ASCII, then also a digit, - or a dot; a class of all that is no ASCII takes Python 4 ms
    | (?P<word> [^\x00-\x23\x25-\x40\x5b-\x5e\x60\x7b-\x9f] [^\x00-\x23\x25-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x9f]* )
    | (?P<quote>["']) (?P<string> (?:\\.|(?!(?P=quote))[^\\\n])* ) (?: (?P=quote) | (?=\n) | \\?\Z )
    | (?P<sign> . )"""
"""The pattern of a token. It is compiled at its first use, because most brokers have no JAAS line."""
ESCAPE = r"(?s)\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)"
CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """A login module: the name of its Java class, and its options."""

    name: str
    options: Mapping[str, Secret]


class JaasToken(NamedTuple):
    """A word or a string has a text. Any other character is a sign: numbers have no meaning here."""

    text: str | None
    sign: str


END = JaasToken(None, "")


def parse_jaas(line: str) -> LoginModule:
    """Return the only login module of a JAAS line. Raise ValueError, whose text has no value of the line."""
    tokens = tokenize(line)
    modules = []
    while (token := next(tokens)) is not END:
        modules.append(parse_module(token, tokens))
    if len(modules) != 1:
        raise ValueError(f"the line has {len(modules)} login modules, and needs exactly one")
    return modules[0]


def parse_module(first: JaasToken, tokens: Iterator[JaasToken]) -> LoginModule:
    """Return the login module whose class is the token `first`."""
    if first.text is None:
        raise ValueError("the line does not begin with the class of a login module")
    flag = next(tokens)
    if flag.text is None or flag.text.lower() not in FLAGS:
        raise ValueError(f"the class of the login module is not followed by one of {', '.join(FLAGS)}")
    options: dict[str, Secret] = {}
    while (key := next(tokens)) is not END and key.sign != ";":
        if key.text is None:
            raise ValueError(f"an option begins with {key.sign!r}: write name=\"value\", and ';' at the end")
        is_set = next(tokens).sign == "="
        value = next(tokens) if is_set else END
        if value.text is None:
            raise ValueError(
                f'the option after {len(options)} others has no value: write name="value", with the quotes'
            )
        options[key.text] = Secret(value.text)
    if key is END:
        raise ValueError("the login module does not end with ';': write one after its last option")
    return LoginModule(first.text, options)


def tokenize(line: str) -> Iterator[JaasToken]:
    """Yield the tokens of a line, and then `END` for ever."""
    for match in re.finditer(TOKEN, line, re.VERBOSE | re.DOTALL | re.ASCII):
        if match["word"] is not None:
            yield JaasToken(match["word"], "")
        elif match["string"] is not None:
            yield JaasToken(re.sub(ESCAPE, unescape, match["string"]), "")
        elif match["sign"] is not None:
            yield JaasToken(None, match["sign"])
    while True:
        yield END


def unescape(match: re.Match[str]) -> str:
    """Return the character that an escape in a string stands for."""
    code: str = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else CONTROLS.get(code, code)
