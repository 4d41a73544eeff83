"""A feature is set to no level that a registered broker lacks, with the sentences of Kafka's FeatureControlManager."""

from __future__ import annotations

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.features import SUPPORTED
from pykbroker.core.metadata.update_features import Upgrade
from tests.unit.core.metadata.harness import ControllerHarness
from wire.error_codes import ErrorCode
from wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NAME = "transaction.version"
OTHERS = {feature: levels for feature, levels in SUPPORTED.items() if feature != NAME}
LACKS = "Broker 99 does not support this feature."


def refusal(harness: ControllerHarness, level: int, upgrade_type: int = Upgrade.UPGRADE) -> str:
    """Set the level, and return the reason of the refusal. It is empty if the level was set."""
    try:
        harness.ask(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(NAME, level, upgrade_type=upgrade_type)]))
    except ApiError as refused:
        assert refused.code is ErrorCode.INVALID_UPDATE_VERSION
        return str(refused.message).rpartition(f"Invalid update version {level} for feature {NAME}. ")[2]
    assert harness.machine.features.get(NAME, 0) == level
    return ""


@pytest.mark.parametrize("fenced", [True, False])
@pytest.mark.parametrize(
    ("features", "refusals"),
    [
        ({**OTHERS, NAME: (0, 1)}, ["", "", "Broker 99 only supports versions 0-1"]),
        (OTHERS, ["", LACKS, LACKS]),
        (SUPPORTED, ["", "", ""]),
    ],
)
def test_every_registered_broker_must_support_the_level(
    features: dict[str, tuple[int, int]], refusals: list[str], fenced: bool
) -> None:
    harness = ControllerHarness().open(1)
    assert refusal(harness, 0, Upgrade.SAFE_DOWNGRADE) == ""
    epoch = harness.register(99, features=features)
    assert harness.beat(99, epoch, want_fence=fenced).is_fenced == fenced
    assert [refusal(harness, level) for level in (0, 1, 2)] == refusals
