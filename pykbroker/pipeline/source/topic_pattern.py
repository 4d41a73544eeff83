"""Regular expressions for names of topics: Java's, as Spark's connector takes them, and what they are in Python.

Names of topics have ASCII letters, digits, dots, hyphens and underscores, so Java's classes of characters need no more.
"""

from __future__ import annotations

import re

CLASSES = {
    "Alpha": "a-zA-Z",
    "Lower": "a-z",
    "Upper": "A-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "a-fA-F0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "ASCII": "\\x00-\\x7f",
    "L": "a-zA-Z",
    "Ll": "a-z",
    "Lu": "A-Z",
    "N": "0-9",
    "Nd": "0-9",
    "IsAlphabetic": "a-zA-Z",
    "IsLetter": "a-zA-Z",
    "IsLowercase": "a-z",
    "IsUppercase": "A-Z",
    "IsDigit": "0-9",
}
"""Java's classes of characters, each with its ASCII characters as in a bracket of Python."""
TOKEN = re.compile(
    r"""
    \\Q (?P<quoted>.*?) (?:\\E | $)
    | \\ (?P<negated>[pP]) (?: \{ (?P<class>\w+) \} | (?P<letter>\w) )
    | \\ (?P<escaped>.)
    | \(\? (?P<flags>[imsu]+) \)
    | \(\?< (?P<group>[a-zA-Z]\w*) >
    | (?P<intersection> && )
    | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)
ENDS = {"z": r"\Z", "Z": r"\Z"}
"""Java's ends of the text. A name has no line break, which would tell them apart."""


class BadPattern(ValueError):
    """The error of a text that is no regular expression, or that has no equal in Python.

    The message continues a sentence that begins with the pattern.
    """


def whole(pattern: str) -> str:
    """Return the pattern that is found in the names of which `pattern` matches all."""
    return rf"\A(?:{pattern})\z"


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a regular expression of Java as one of Python. Raise BadPattern."""
    try:
        return re.compile(Translation(pattern).text())
    except re.error as error:
        raise BadPattern(f"is no regular expression: {error}") from None


class Translation:
    """The translation of one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._is_bracket = False
        self._flags = [""]
        """The flags that groups such as `(?i)` have set, for each open group. A flag ends with its group."""

    def text(self) -> str:
        """Return the pattern in Python's syntax. Raise BadPattern."""
        found = "".join(map(self._token, TOKEN.finditer(self._pattern)))
        return found + self._closed()

    def _token(self, token: re.Match[str]) -> str:
        match token.lastgroup:
            case "quoted":
                return re.escape(token["quoted"])
            case "class" | "letter":
                return self._class(token["class"] or token["letter"], is_negated=token["negated"] == "P")
            case "escaped":
                return token[0] if self._is_bracket else ENDS.get(token["escaped"], token[0])
            case "flags" if not self._is_bracket:
                self._flags[-1] += f"{token['flags']} "
                return f"(?{token['flags']}:"
            case "group" if not self._is_bracket:
                self._flags.append("")
                return f"(?P<{token['group']}>"
            case "intersection" if self._is_bracket:
                raise BadPattern("cannot be used: an intersection of classes (&&) is not supported")
            case _:
                return "".join(map(self._plain, token[0]))

    def _plain(self, char: str) -> str:
        """Return a character, and follow the groups and brackets that it opens or closes."""
        if self._is_bracket:
            if char == "[":
                raise BadPattern("cannot be used: a class inside of brackets is not supported")
            self._is_bracket = char != "]"
            return char
        if char == "[":
            self._is_bracket = True
        elif char == "(":
            self._flags.append("")
        elif char == ")" and len(self._flags) > 1:
            return self._closed() + char
        elif char == "|":
            flags = self._flags[-1].split()
            return f"{')' * len(flags)}|{''.join(f'(?{each}:' for each in flags)}"
        return char

    def _closed(self) -> str:
        """Return the ends of the groups that stand for the flags of the innermost group."""
        return ")" * len(self._flags.pop().split())

    def _class(self, name: str, *, is_negated: bool) -> str:
        if name not in CLASSES:
            raise BadPattern(
                f"cannot be used: the class of characters \\p{{{name}}} is not supported: write it as [...]"
            )
        if not self._is_bracket:
            return f"[{'^' * is_negated}{CLASSES[name]}]"
        if is_negated:
            raise BadPattern(f"cannot be used: \\P{{{name}}} inside of brackets is not supported: write it as [^...]")
        return CLASSES[name]
