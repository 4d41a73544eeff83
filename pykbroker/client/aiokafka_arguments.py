"""The arguments of aiokafka's clients that are no settings of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WITHOUT_EFFECT = frozenset({"loop", "api_version"})
"""The arguments that are accepted without effect: the event loop is the running one, and versions are negotiated."""
DEFAULTS: Mapping[str, Any] = {"client_id": None, "client_rack": None, "sasl_mechanism": "PLAIN"}
"""The defaults of aiokafka that are no values of the setting of this name."""


def without_aiokafka_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are settings of Kafka. With SASL, the default of the mechanism is that of aiokafka."""
    found = {
        name: value
        for name, value in given.items()
        if name not in WITHOUT_EFFECT and not (name in DEFAULTS and value == DEFAULTS[name])
    }
    if str(found.get("security_protocol", "")).upper().startswith("SASL"):
        found.setdefault("sasl_mechanism", DEFAULTS["sasl_mechanism"])
    return found
