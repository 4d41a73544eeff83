"""The options of the fixture `kafka_broker` in pytest's configuration file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pytest

T = TypeVar("T")

PREFIX = "kafka_broker_"
KEYS = {
    "configs": ("linelist", "Broker configs by their Kafka names, one NAME=VALUE a line."),
    "topics": ("linelist", "Topics that exist from the start, one NAME or NAME:PARTITIONS a line."),
    "data_dir": ("string", "A directory that keeps the data, relative to the rootdir. Default: a temporary directory."),
    "process": ("bool", "Run the broker in a child process instead of a thread."),
    "start_timeout": ("string", "The seconds that a start may take. Default: 30."),
    "tls": ("bool", "Let clients use TLS, with a certificate that the broker makes."),
    "users": ("linelist", "Users who log in, one NAME:PASSWORD a line. Without any, clients need no log-in."),
    "authorize": ("bool", "Let users do only what ACLs allow. The first user may do everything."),
}
"""Option -> its type for pytest, and its help."""
UNSET = object()
"""The value of a key that the configuration file does not set. pytest 7 returns a list instead of the default None."""


def add_keys(parser: pytest.Parser) -> None:
    """Declare the keys of the configuration file."""
    for option, (kind, text) in KEYS.items():
        parser.addini(PREFIX + option, text, type=kind, default=UNSET)  # type: ignore[arg-type]


def options_of(config: pytest.Config) -> dict[str, Any]:
    """Return the options that the configuration file sets. StartError: a key or a value is invalid."""
    from pykbroker.core.errors import StartError

    for key in keys_of(config):
        if key.startswith(PREFIX) and key.removeprefix(PREFIX) not in KEYS:
            raise StartError(unknown_option(f"the ini key {key}", key, [PREFIX + option for option in KEYS]))
    found = {option: value for option in KEYS if (value := config.getini(PREFIX + option)) is not UNSET}
    if "configs" in found:
        found["configs"] = unique(map(config_line, found["configs"]), "configs")
    if "topics" in found:
        found["topics"] = unique(map(topic_line, found["topics"]), "topics")
    if "users" in found:
        found["users"] = unique(map(user_line, found["users"]), "users")
    if "data_dir" in found:
        if not found["data_dir"]:
            raise StartError(f"{PREFIX}data_dir is empty: name a directory, or remove the key")
        found["data_dir"] = config.rootpath / found["data_dir"]
    if "start_timeout" in found:
        found["start_timeout"] = seconds(found["start_timeout"])
    return found


def keys_of(config: pytest.Config) -> list[str]:
    """Return all keys of the configuration file, declared or not."""
    with warnings.catch_warnings():  # pytest 9 deprecates `inicfg`, and has no other access to undeclared keys
        warnings.simplefilter("ignore")
        return list(getattr(config, "inicfg", {}))


def config_line(line: str) -> tuple[str, str]:
    """Parse NAME=VALUE. StartError: the line is not of this form."""
    from pykbroker.core.errors import StartError

    name, separator, value = line.partition("=")
    if not separator or not name.strip():
        raise StartError(f"{PREFIX}configs: {line!r} is not NAME=VALUE, such as num.partitions=3")
    return name.strip(), value.strip()


def topic_line(line: str) -> tuple[str, int | None]:
    """Parse NAME or NAME:PARTITIONS. None stands for num.partitions. StartError: the line is of neither form."""
    from pykbroker.core.errors import StartError

    name, colon, partitions = line.partition(":")
    if colon and not (partitions.strip().isascii() and partitions.strip().isdigit()):
        raise StartError(f"{PREFIX}topics: {line!r} is neither NAME nor NAME:PARTITIONS, such as orders:3")
    return name.strip(), int(partitions) if colon else None


def user_line(line: str) -> tuple[str, str]:
    """Parse NAME:PASSWORD. StartError: the line is not of this form. It may be a password, and is not in the error."""
    from pykbroker.core.errors import StartError

    name, _, password = line.partition(":")
    if not name or not password:
        raise StartError(f"{PREFIX}users has a line that is not NAME:PASSWORD, such as alice:secret")
    return name, password


def seconds(text: str) -> float:
    """Parse a number of seconds. StartError: the text is no number."""
    from pykbroker.core.errors import StartError

    try:
        return float(text)
    except ValueError:
        raise StartError(f"{PREFIX}start_timeout is {text!r}: write a number of seconds, such as 120") from None


def unique(pairs: Iterable[tuple[str, T]], option: str) -> dict[str, T]:
    """Return the pairs as a dict. StartError: a name is repeated."""
    from pykbroker.core.errors import StartError

    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise StartError(f"{PREFIX}{option} sets {name} twice: remove one of the lines")
        found[name] = value
    return found


def unknown_option(subject: str, name: str, options: Iterable[str], fixture: str = "kafka_broker") -> str:
    """Return a sentence about a name that is no option of a fixture."""
    from pykbroker.core.config.names import nearest

    return f"{subject} is no option of {fixture}{nearest(name, options) or ': write one of ' + ', '.join(options)}"


def merged(ini: Mapping[str, Any], own: Any, names: Iterable[str], fixture: str = "kafka_broker") -> dict[str, Any]:
    """Return the options of the configuration file and of the fixture of options, such as `kafka_broker_options`.

    StartError: the fixture returns no dict or an unknown option, or both set an option to different values.
    """
    from pykbroker.core.errors import StartError

    if not isinstance(own, Mapping):
        raise StartError(f"{fixture}_options returns {own!r}: return a dict such as {{'topics': {{'orders': 3}}}}")
    for name in own:
        if name not in names:
            raise StartError(unknown_option(f"{name!r} in {fixture}_options", str(name), names, fixture))
        if name in ini and ini[name] != own[name]:
            raise StartError(
                f"the fixture {fixture}_options and the ini key {PREFIX}{name} both set {name}: remove one of them"
            )
    return {**ini, **own}
