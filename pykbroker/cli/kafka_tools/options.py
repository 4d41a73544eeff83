"""The options of Kafka's tools as tables, and a parser that reads them as Kafka's own parser does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

KAFKA_VERSION = "4.3.1"
"""The version of Apache Kafka whose tools these are."""

NO_HINTS: Mapping[tuple[str, str], str] = {}


class InvalidCommandLine(Exception):
    """The error of a command line that a tool refuses, as a sentence."""


class Option(NamedTuple):
    """An option of a tool. `takes` is the name of its value, or "" if it has none.

    `short` is its short form, such as -t. An optional value may be left out. `missing` is the sentence about an option
    of Kafka that the translation lacks.
    """

    name: str
    takes: str = ""
    short: str = ""
    is_repeatable: bool = False
    is_optional: bool = False
    missing: str = ""


class Given:
    """The options of a command line with their values. An option without a value has the value ""."""

    def __init__(self, values: Mapping[str, Sequence[str]], words: Sequence[str] = ()) -> None:
        self._values, self.words = values, words

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def all(self, *names: str) -> list[str]:
        """Return the values of options, in this order."""
        return [value for name in names for value in self._values.get(name, ())]

    def text(self, name: str, default: str = "") -> str:
        """Return the value of an option."""
        return self._values[name][0] if name in self._values else default

    def number(self, name: str, default: int, least: int = -(2**63), most: int = 2**63 - 1) -> int:
        """Return an integer value. InvalidCommandLine: it is none, or outside of its limits."""
        if name not in self._values:
            return default
        text = self.text(name)
        try:
            value = int(text)
        except ValueError:
            raise InvalidCommandLine(f"Cannot parse argument '{text}' of option {name}") from None
        if not least <= value <= most:
            raise InvalidCommandLine(f"--{name} {value} is not a number from {least} to {most}")
        return value

    def only_one(self, names: Sequence[str], refusal: str) -> str:
        """Return the one option of these that is given. InvalidCommandLine: none or several are given."""
        found = [name for name in names if name in self]
        if len(found) != 1:
            raise InvalidCommandLine(refusal)
        return found[0]

    def check_allowed(
        self, action: str, allowed: Mapping[str, Sequence[str]], hints: Mapping[tuple[str, str], str] = NO_HINTS
    ) -> None:
        """Raise InvalidCommandLine if an option is given that `allowed` has for other actions only.

        `hints` are appended to the refusal of an option with an action.
        """
        for name, actions in allowed.items():
            if name in self and action not in actions:
                hint = hints.get((name, action), "")
                raise InvalidCommandLine(f'Option "[{name}]" can\'t be used with option "[{action}]"{hint}')

    def require(self, *names: str) -> None:
        """Raise InvalidCommandLine unless all of these options are given."""
        for name in names:
            if name not in self:
                raise InvalidCommandLine(f'Missing required argument "[{name}]"')


class Tool(NamedTuple):
    """A tool: its name, a sentence about it, its options, and the function that runs it and returns the exit code.

    The function gets the words before the first option, too, if the tool has subcommands. `failure` is what Kafka's
    tool prints before the reason of a failure, and on the standard output if `fails_on_stdout`.
    """

    name: str
    summary: str
    options: Sequence[Option]
    run: Callable[[Given], int]
    failure: str = ""
    fails_on_stdout: bool = False


COMMON = (Option("help"), Option("version"))
CONNECTION = (Option("bootstrap-server", "HOST:PORT,..."), Option("command-config", "FILE"))
REMOVED = {
    "zookeeper": "Kafka 4 has no ZooKeeper: write --bootstrap-server HOST:PORT",
    "broker-list": "Kafka 4 has removed it: write --bootstrap-server HOST:PORT",
    "whitelist": "Kafka 4 has removed it: write --include",
    "new-consumer": "Kafka 4 has removed it: leave it out",
    "authorizer-properties": "Kafka 4 has removed it: write --bootstrap-server HOST:PORT",
}
"""Options of earlier versions of Kafka, which compose files still have -> what to write."""


def missing(sentence: str, *names: str, takes: str = "") -> Iterable[Option]:
    """Return options that the translation lacks for the same reason."""
    return [Option(name, takes, is_repeatable=True, missing=sentence) for name in names]


def parsed(tool: Tool, words: Sequence[str]) -> Given:
    """Return the options of a command line: --NAME VALUE, --NAME=VALUE, -NAME VALUE, or in short -n VALUE.

    InvalidCommandLine: an option is unknown, missing here, given twice, or without its value.
    """
    known = {f"--{each.name}": each for each in (*tool.options, *COMMON)}
    known.update({each.short: each for each in tool.options if each.short})
    known.setdefault("-h", Option("help"))
    values: dict[str, list[str]] = {}
    plain: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            plain.append(word)
            continue
        name, equals, value = word.partition("=")
        option = known.get(name) or known.get(f"-{name}")
        if option is None:
            raise InvalidCommandLine(unknown(tool, name))
        if option.missing:
            raise InvalidCommandLine(f"{name} is not translated: {option.missing}")
        if not equals and option.takes:
            if rest and not (option.is_optional and rest[0].startswith("-")):
                value = rest.pop(0)
            elif not option.is_optional:
                raise InvalidCommandLine(f"Option {option.name} requires an argument: write {name} {option.takes}")
        elif equals and not option.takes:
            raise InvalidCommandLine(f"Option {option.name} takes no argument: write {name}")
        found = values.setdefault(option.name, [])
        found.append(value)
        if len(found) > 1 and option.takes and not option.is_repeatable:
            raise InvalidCommandLine(f"Found multiple arguments for option {option.name}, but you asked for only one")
    return Given(values, plain)


def unknown(tool: Tool, name: str) -> str:
    """Return the sentence about an option that Kafka's tool does not have."""
    bare = name.lstrip("-")
    advice = REMOVED.get(bare, f"`{tool.name} --help` lists the options")
    return f"{bare} is not a recognized option: {advice}"


def form(option: Option) -> str:
    """Return how to write an option, such as `-t, --cluster-id ID`."""
    value = f" [{option.takes}]" if option.is_optional else f" {option.takes}" if option.takes else ""
    return f"{option.short + ', ' if option.short else ''}--{option.name}{value}"


def usage(tool: Tool) -> str:
    """Return the help of a tool: a line for each option, also for those that are missing."""
    lines = [tool.summary, "", "Options:"]
    for each in sorted((*tool.options, *COMMON)):
        lines.append(f"  {form(each)}" + (f"  (not translated: {each.missing})" if each.missing else ""))
    return "\n".join(lines)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the NAME=VALUE of a repeated option. InvalidCommandLine: one of them has no equals sign."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidCommandLine(f"--{option} {text} is not NAME=VALUE")
        found[name.strip()] = value
    return found
