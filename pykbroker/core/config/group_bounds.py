"""Constraints on group configs: the broker's bounds for them, and constraints between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykbroker.core.config.table import BROKER, GROUP, GROUP_SYNONYMS
from pykbroker.core.config.type import Value, refuse

KINDS = ("consumer", "share", "streams")


ASSIGNOR_CLASSES = "org.apache.kafka.coordinator.group.assignor."
ASSIGNORS = {
    "uniform": "uniform",
    f"{ASSIGNOR_CLASSES}UniformAssignor": "uniform",
    "range": "range",
    f"{ASSIGNOR_CLASSES}RangeAssignor": "range",
}
"""The server-side assignors by name and by Java class, since Kafka's default named the classes before 4.0."""


class Bounds(NamedTuple):
    """The names of the broker configs that bound a group config, or None where there is no bound."""

    low: str | None
    high: str | None


def _bounds(config: str) -> Bounds:
    kind, _, what = config.partition(".")
    low, high = f"group.{kind}.min.{what}", f"group.{kind}.max.{what.removeprefix('num.')}"
    return Bounds(low if low in BROKER else None, high if high in BROKER else None)


BOUNDS = {config: bounds for config in GROUP if any(bounds := _bounds(config))}
"""The bounds of each group config, by name."""


def check_broker_groups(values: Mapping[str, Value]) -> None:
    """Raise ApiError INVALID_CONFIG if the broker's group configs contradict each other."""
    for config, (low, high) in BOUNDS.items():
        if low is not None and high is not None:
            check_bounds(high, values[high], Bounds(low, None), values)
        synonym = GROUP_SYNONYMS[config]
        check_bounds(synonym, values[synonym], Bounds(low, high), values)
    for kind in KINDS:
        beat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if values[beat] >= values[session]:  # type: ignore[operator]
            raise refuse(f"{beat} must be less than {session}")
    check_bounds(
        "group.share.max.share.sessions",
        values["group.share.max.share.sessions"],
        Bounds("group.share.max.size", None),
        values,
    )
    assignors = values["group.share.assignors"]
    if isinstance(assignors, tuple) and len(assignors) != 1:
        raise refuse(f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}")
    if "classic" not in values["group.coordinator.rebalance.protocols"]:  # type: ignore[operator]
        raise refuse("Disabling the 'classic' protocol is not supported.")
    for assignor in values["group.consumer.assignors"]:  # type: ignore[union-attr]
        if assignor not in ASSIGNORS:
            raise refuse(f"group.consumer.assignors: {assignor} is none of {', '.join(ASSIGNORS)}")


def check_group_values(given: Mapping[str, Value], values: Mapping[str, Value]) -> None:
    """Raise ApiError INVALID_CONFIG if a group's own configs exceed the broker's bounds."""
    for config, value in given.items():
        if config in BOUNDS:
            check_bounds(config, value, BOUNDS[config], values)
    held = {**{config: values[synonym] for config, synonym in GROUP_SYNONYMS.items()}, **given}
    for kind in KINDS:
        session, beat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if held[session] <= held[beat]:  # type: ignore[operator]
            raise refuse(f"{session} must be greater than {beat}")


def check_bounds(name: str, value: Value, bounds: Bounds, values: Mapping[str, Value]) -> None:
    """Raise ApiError INVALID_CONFIG if a value is outside the bounds."""
    low, high = bounds
    if low is not None and value < values[low]:  # type: ignore[operator]
        raise refuse(f"{name} must be greater than or equal to {low}")
    if high is not None and value > values[high]:  # type: ignore[operator]
        raise refuse(f"{name} must be less than or equal to {high}")
