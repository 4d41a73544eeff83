"""The properties of the console tools, such as print.key=true, as the fields of a class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pykbroker.cli.kafka_tools.options import InvalidCommandLine

FLAGS = {"true": True, "false": False}
T = TypeVar("T", bound=NamedTuple)


def with_properties(default: T, texts: Mapping[str, str]) -> T:
    """Return `default` with the values of properties. The property print.key is the field print_key.

    InvalidCommandLine: a property is unknown, or that of a flag is neither true nor false.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        field = name.replace(".", "_")
        if field not in default._fields:
            known = ", ".join(each.replace("_", ".") for each in default._fields)
            raise InvalidCommandLine(f"--property {name}={text} is not translated: the properties are {known}")
        is_flag = isinstance(getattr(default, field), bool)
        if is_flag and text.lower() not in FLAGS:
            raise InvalidCommandLine(f"--property {name}={text} is neither true nor false")
        values[field] = FLAGS[text.lower()] if is_flag else text
    return default._replace(**values)
