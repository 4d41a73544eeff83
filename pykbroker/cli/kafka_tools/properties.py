"""The properties of the console tools: those of a format, such as print.key=true, and those of clients."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pykbroker.cli.kafka_tools.options import InvalidCommandLine

T = TypeVar("T", bound=NamedTuple)


def with_properties(default: T, texts: Mapping[str, str]) -> T:
    """Return `default` with the values of properties. The property print.key is the field print_key.

    As in Kafka, an unknown property has no effect, and a flag is false unless its text is "true". A warning names such
    a property, and such a flag.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        field = name.replace(".", "_")
        if field not in default._fields:
            known = ", ".join(each.replace("_", ".") for each in default._fields)
            warn(f"the property {name} has no effect: the properties are {known}")
        elif isinstance(getattr(default, field), bool):
            values[field] = text.strip().lower() == "true"
            if text.strip().lower() not in ("true", "false"):
                warn(f"the property {name}={text} means false: write {name}=true or {name}=false")
        else:
            values[field] = text
    return default._replace(**values)


def security_settings(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of TLS and SASL that have an effect. InvalidCommandLine: one is not supported."""
    from pykbroker.client.security_settings import InvalidSetting, settings_of_properties

    try:
        return settings_of_properties(texts)
    except InvalidSetting as error:
        raise InvalidCommandLine(str(error)) from None


def client_settings(texts: Mapping[str, str], known: type) -> dict[str, Any]:
    """Return the settings of a client, which have underscores in their names, of a class of msgspec with all of them.

    As in Kafka, an unknown setting has no effect, and is warned of. InvalidCommandLine: one of TLS or SASL is wrong.
    """
    from pykbroker.client.security_settings import PREFIXES

    found: dict[str, Any] = {**security_settings(texts)}
    for name, text in texts.items():
        field = name.replace(".", "_")
        if field in known.__struct_fields__:  # type: ignore[attr-defined]
            found[field] = text
        elif field not in IMPLIED and not field.startswith(PREFIXES):
            warn(f"the setting {name} has no effect: the translation has no such setting")
    return found


IMPLIED = {"key_serializer", "value_serializer", "key_deserializer", "value_deserializer"}
"""Settings of Kafka's clients that the tools have replaced or checked."""


def warn(sentence: str) -> None:
    """Print a warning."""
    print(f"WARN: {sentence}", file=sys.stderr)
