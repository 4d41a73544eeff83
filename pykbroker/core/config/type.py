"""The types of Kafka's configs: parsing of texts and formatting of values.

An invalid value raises ApiError INVALID_CONFIG. Its message has Kafka's form: the value, the config's name, the reason.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import IntEnum

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

Value = bool | int | float | str | tuple[str, ...] | None

INTEGER = re.compile(r"[+-]?[0-9]+")
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
COMMA = re.compile(r"\s*,\s*")


class Type(IntEnum):
    """The type of a config. The numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    def read(self, name: str, text: str) -> Value:
        """Return the typed value of `text`. Surrounding spaces are ignored."""
        word = text.strip()
        match self:
            case Type.BOOLEAN:
                return read_boolean(name, word)
            case Type.INT | Type.SHORT | Type.LONG:
                return read_integer(self, name, word)
            case Type.DOUBLE:
                if not DECIMAL.fullmatch(word):
                    raise invalid(name, word, "Not a number of type DOUBLE")
                return float(word)
            case Type.LIST:
                return tuple(dict.fromkeys(COMMA.split(word))) if word else ()
        return word


BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}


def read_boolean(name: str, word: str) -> bool:
    """Return the boolean. As in Kafka, true and false may be in upper or lower case."""
    if word.lower() not in ("true", "false"):
        raise invalid(name, word, "Expected value to be either true or false")
    return word.lower() == "true"


def read_integer(kind: Type, name: str, word: str) -> int:
    """Return the number. Raise ApiError INVALID_CONFIG if the text is not a decimal number in the range of the type."""
    if not INTEGER.fullmatch(word) or len(word) > 20 or not -1 <= int(word) >> (BITS[kind] - 1) <= 0:
        raise invalid(name, word, f"Not a number of type {kind.name}")
    return int(word)


def text_of(value: Value) -> str | None:
    """Return a value as DescribeConfigs formats it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return text_of_double(value)
        case None:
            return None
    return str(value)


def text_of_double(number: float) -> str:
    """Return a double in Java's notation, which has an exponent for numbers below 0.001 and from 10,000,000 on."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    mantissa, exponent = f"{Decimal(repr(number)).normalize():E}".split("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def invalid(name: str, value: Value, reason: str) -> ApiError:
    """Return the ApiError for one invalid value."""
    return ApiError(ErrorCode.INVALID_CONFIG, f"Invalid value {text_of(value)} for configuration {name}: {reason}")


def refuse(message: str) -> ApiError:
    """Return the ApiError for configs that contradict each other."""
    return ApiError(ErrorCode.INVALID_CONFIG, message)
