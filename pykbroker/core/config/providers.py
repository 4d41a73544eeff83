"""Config providers: variables such as `${file:/run/secrets/kafka:password}` in the values of configs.

`config.providers` names the providers, and `config.providers.<name>.class` has the class of each, which must be one of
`PROVIDERS`. A variable is replaced by the value of its key. It stays as it is if its provider or its key is unknown, or
its path is not allowed. A value that replaces a variable is final: variables in it are not replaced.

Source: AbstractConfig, ConfigTransformer, AllowedPaths and the providers of Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from pykbroker.core.config.type import invalid, refuse
from pykbroker.core.errors import ApiError

PROVIDER_NAMES, PREFIX = "config.providers", "config.providers."
ALLOWED_PATHS, ALLOWLIST_PATTERN = "allowed.paths", "allowlist.pattern"
IGNORED = "pykbroker.ignore.classes"
VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""A variable: its provider, its path, which may be missing, and its key."""
VARIABLE_BEGIN = "${"

Lookup = Callable[[str, str], str | None]
"""A function that returns the value of a path and a key, or None if it is unknown.

It raises ApiError INVALID_CONFIG if it cannot read its source.
"""


class ConfigSources(Protocol):
    """The files and the environment in which providers look values up."""

    @property
    def environ(self) -> Mapping[str, str]: ...

    def exists(self, path: str) -> bool: ...

    def properties(self, path: str) -> Mapping[str, str]:
        """Return the entries of a properties file. Raise OSError or ValueError if it cannot be read."""
        ...

    def file_in(self, directory: str, name: str) -> str | None:
        """Return the text of a file in a directory, or None if there is none. Raise OSError or ValueError."""
        ...


def resolve(texts: Mapping[str, str], declared: Mapping[str, str], sources: ConfigSources) -> dict[str, str]:
    """Return the texts with the variables replaced whose providers are in `declared`.

    Raise ApiError INVALID_CONFIG if a provider is unknown, or a source cannot be read.
    """
    lookups = providers(declared, sources)
    if not lookups:
        return dict(texts)
    return {name: resolved(name, text, lookups) for name, text in texts.items()}


def resolved(name: str, text: str, lookups: Mapping[str, Lookup]) -> str:
    """Return the text of a config with its variables replaced."""

    def replacement(variable: re.Match[str]) -> str:
        lookup = lookups.get(variable[1])
        value = None if lookup is None else lookup(variable[3] or "", variable[4])
        return variable[0] if value is None else value

    try:
        return VARIABLE.sub(replacement, text)
    except ApiError as error:
        raise refuse(f"{error.message}, in the value of {name}") from None


def has_variable(text: str, declared: Mapping[str, str]) -> bool:
    """Whether a text has a variable of one of the declared providers."""
    names = declared.get(PROVIDER_NAMES, "").split(",")
    return any(variable[1] in names for variable in VARIABLE.finditer(text))


def may_have_variables(*layers: Mapping[str, str]) -> bool:
    """Whether a text may have a variable, of any provider."""
    return any(VARIABLE_BEGIN in text for texts in layers for text in texts.values())


def providers(declared: Mapping[str, str], sources: ConfigSources) -> dict[str, Lookup]:
    """Return the providers that configs declare, by name. As in Kafka, the names are not stripped of spaces.

    Raise ApiError INVALID_CONFIG for another class, unless `pykbroker.ignore.classes` has its config.
    """
    found = {}
    ignored = [name.strip() for name in declared.get(IGNORED, "").split(",")]
    for name in declared.get(PROVIDER_NAMES, "").split(","):
        config = f"{PREFIX}{name}.class"
        if config in declared and config not in ignored:
            make = PROVIDERS.get(declared[config])
            if make is None:
                raise invalid(config, declared[config], unknown_class(config, ignored))
            params = f"{PREFIX}{name}.param."
            found[name] = make({key.removeprefix(params): text for key, text in declared.items()}, sources)
    return found


def unknown_class(config: str, ignored: Collection[str]) -> str:
    """Return why the class of a provider is refused, and what to do."""
    return (
        "Could not load config provider class or one of its dependencies. pykbroker loads no classes of Java, and has"
        f" {', '.join(PROVIDERS)}. Write one of them, or leave the variables of the provider as they are by"
        f" {IGNORED}={','.join(sorted({*ignored, config} - {''}))}"
    )


def without_class(texts: Mapping[str, str]) -> list[str]:
    """Return the names in `config.providers` that have no class, so that their variables stay as they are."""
    names = texts.get(PROVIDER_NAMES, "").split(",")
    return [name for name in names if name.strip() and f"{PREFIX}{name}.class" not in texts]


def file_provider(params: Mapping[str, str], sources: ConfigSources) -> Lookup:
    """Return a FileConfigProvider: the path is a properties file, and the key one of its entries."""
    allowed, files = allowed_paths(params, sources), dict[str, Mapping[str, str]]()

    def lookup(path: str, key: str) -> str | None:
        if not path or not is_allowed(path, allowed):
            return None
        if path not in files:
            try:
                files[path] = sources.properties(path)
            except (OSError, ValueError):
                raise refuse(f"Could not read properties from file {path}") from None
        return files[path].get(key)

    return lookup


def directory_provider(params: Mapping[str, str], sources: ConfigSources) -> Lookup:
    """Return a DirectoryConfigProvider: the path is a directory, and the key the name of a file in it."""
    allowed = allowed_paths(params, sources)

    def lookup(path: str, key: str) -> str | None:
        if not path or "/" in key or not is_allowed(path, allowed):
            return None
        try:
            return sources.file_in(path, key)
        except (OSError, ValueError):
            raise refuse(f"Could not read file {path}/{key} for property {key}") from None

    return lookup


def environment_provider(params: Mapping[str, str], sources: ConfigSources) -> Lookup:
    """Return an EnvVarConfigProvider: the key is an environment variable, which `allowlist.pattern` must match."""
    pattern = params.get(ALLOWLIST_PATTERN, ".*")
    try:
        allowed = re.compile(pattern)
    except re.error as error:
        raise refuse(f"{ALLOWLIST_PATTERN} {pattern} of a config provider is no regular expression: {error}") from None

    def lookup(path: str, key: str) -> str | None:
        if path:
            raise refuse(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return sources.environ.get(key) if allowed.fullmatch(key) else None

    return lookup


PACKAGE = "org.apache.kafka.common.config.provider"
PROVIDERS: Mapping[str, Callable[[Mapping[str, str], ConfigSources], Lookup]] = {
    f"{PACKAGE}.FileConfigProvider": file_provider,
    f"{PACKAGE}.DirectoryConfigProvider": directory_provider,
    f"{PACKAGE}.EnvVarConfigProvider": environment_provider,
}
"""The providers by their class in Kafka."""


def allowed_paths(params: Mapping[str, str], sources: ConfigSources) -> list[list[str]] | None:
    """Return the names of each allowed path, or None if every path is allowed."""
    text = params.get(ALLOWED_PATHS, "")
    if not text:
        return None
    paths = text.rstrip(",").split(",") if text.rstrip(",") else []
    for path in paths:
        if not path.startswith("/"):
            raise refuse(f"Path {path} is not absolute")
        if not sources.exists(path):
            raise refuse(f"Path {path} does not exist")
    return [names_of(path) for path in paths]


def is_allowed(path: str, allowed: list[list[str]] | None) -> bool:
    """Whether a path is an allowed one, or below it. As in Kafka, links are not followed."""
    if allowed is None:
        return True
    names = names_of(path)
    return path.startswith("/") and any(names[: len(each)] == each for each in allowed)


def names_of(path: str) -> list[str]:
    """Return the names of an absolute path without `.` and `..`."""
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            del names[-1:]
        elif name not in ("", "."):
            names.append(name)
    return names
