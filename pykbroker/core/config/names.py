"""Error texts for unknown config names, with the most similar known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pykbroker.core.config.table import BROKER, TOPIC_SYNONYMS

SIMILARITY_MIN = 0.75
"""The least similarity, between 0 and 1, of a suggested name."""

REPLACED = {
    "host.name": "listeners",
    "port": "listeners",
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "zookeeper.connect": "controller.quorum.bootstrap.servers",
}
"""Configs that Kafka has removed, each with the one that takes its place."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean NAME?", or an empty string if no known name is similar."""
    found = difflib.get_close_matches(name, names, n=1, cutoff=SIMILARITY_MIN)
    return f"; did you mean {found[0]}?" if found else ""


def unknown_config(name: str) -> str:
    """Return an error text for a name that no broker config has."""
    if name in TOPIC_SYNONYMS:
        return f"{name} is a config of topics; for all topics of this broker it is called {TOPIC_SYNONYMS[name][0]}."
    if name in REPLACED:
        return f"{name} is no broker config any more, as in Kafka 4; {REPLACED[name]} has taken its place."
    return f"There is no broker config {name}" + (nearest(name, BROKER) or ".")
