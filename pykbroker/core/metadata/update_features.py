"""UpdateFeatures: change the levels of all features that a request names, or of none (KIP-584, KIP-1022).

A downgrade of metadata.version is refused if a level in between changed the format of records, because the contents of
the new fields would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.alter_configs import MIN_ISR
from pykbroker.core.metadata.context import ELR_FEATURE, METADATA_FEATURE, ControllerContext, MetadataDecision
from pykbroker.core.metadata.features import KRAFT_FEATURE, SUPPORTED
from pykbroker.core.metadata.image import BROKER_RESOURCE, CLUSTER_DEFAULT
from pykbroker.core.metadata.record import ELR_LEVEL, Record
from wire.error_codes import ErrorCode
from wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from wire.stored.metadata_settings import ConfigRecord, FeatureLevelRecord

RECORDS_CHANGED = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30))
"""The levels of metadata.version that changed the format of records."""

NEEDED: Mapping[str, tuple[str, int]] = {ELR_FEATURE: (METADATA_FEATURE, ELR_LEVEL)}
"""The dependencies of features: feature -> the feature that it needs, and the lowest level of that feature."""


class Upgrade(IntEnum):
    """The upgrade type of a request.

    A safe and an unsafe downgrade are treated alike: one that would lose metadata is refused.
    """

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(context: ControllerContext, request: UpdateFeaturesRequest) -> MetadataDecision:
    """Return the metadata records and the response. If a feature is updated twice, the last update counts."""
    updates = {update.feature: update for update in request.feature_updates}
    wanted = {**context.draft.features, **{name: update.max_version_level for name, update in updates.items()}}
    for update in updates.values():
        try:
            _check(context, update)
            _check_needs(update, wanted)
        except ApiError as error:
            raise ApiError(
                error.code,
                f"The update failed for all features since the following feature had an error: {error.message}",
            ) from error
    response = UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=update.feature, error_message=ErrorCode.NONE.name)
            for update in request.feature_updates
        ],
    )
    return [] if request.validate_only else [*_records(context, updates.values())], response


def _check(context: ControllerContext, update: FeatureUpdateKey) -> None:
    name, level, current = update.feature, update.max_version_level, context.feature(update.feature)
    if update.upgrade_type not in tuple(Upgrade):
        raise _refused(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    _check_range(update, f"Local controller {context.settings.node_id}", SUPPORTED)
    for broker in context.draft.brokers.values():
        _check_range(update, f"Broker {broker.id}", broker.features)
    if level < current and update.upgrade_type == Upgrade.UPGRADE:
        raise _refused(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either "
            "safe or unsafe downgrade.",
        )
    if level > current and update.upgrade_type != Upgrade.UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if name == KRAFT_FEATURE and level != current:
        raise _refused(update, "The quorum of this broker is static.")
    if name not in SUPPORTED:
        raise _refused(update, f"Feature {name} not found.")
    if name == METADATA_FEATURE and not RECORDS_CHANGED.isdisjoint(range(level + 1, current + 1)):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if update.upgrade_type == Upgrade.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
        )


def _check_range(update: FeatureUpdateKey, node: str, supported: Mapping[str, tuple[int, int]]) -> None:
    """Raise ApiError if a node does not support the level. A feature that it does not name is supported at 0."""
    least, most = supported.get(update.feature, (0, 0))
    if not least <= update.max_version_level <= most:
        knows = f"only supports versions {least}-{most}" if most else "does not support this feature."
        raise _refused(update, f"{node} {knows}")


def _check_needs(update: FeatureUpdateKey, wanted: Mapping[str, int]) -> None:
    """Raise ApiError if a feature would be enabled without the feature that it needs."""
    if update.feature in NEEDED and update.max_version_level:
        other, least = NEEDED[update.feature]
        if wanted.get(other, 0) < least:
            raise _refused(
                update,
                f"{update.feature} could not be set to {update.max_version_level} because it "
                f"depends on {other} level {least}",
            )


def _refused(update: FeatureUpdateKey, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
    )


def _records(context: ControllerContext, updates: Iterable[FeatureUpdateKey]) -> Iterable[Record]:
    for update in updates:
        if update.feature == ELR_FEATURE and update.max_version_level:
            yield from _agreed_min_isr(context)
    for update in updates:
        if update.feature != KRAFT_FEATURE:
            yield FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)


def _agreed_min_isr(context: ControllerContext) -> Iterable[Record]:
    """Return the records that set min.insync.replicas cluster-wide and unset it for each broker.

    min.insync.replicas decides which replicas are eligible leaders, so all brokers must agree on it.
    """
    kind, everybody = CLUSTER_DEFAULT
    if MIN_ISR not in context.draft.config(CLUSTER_DEFAULT):
        yield ConfigRecord(
            resource_type=kind, resource_name=everybody, name=MIN_ISR, value=str(context.settings.min_insync_replicas)
        )
    for kind, broker in context.draft.configs:
        if kind == BROKER_RESOURCE and broker and MIN_ISR in context.draft.config((kind, broker)):
            yield ConfigRecord(resource_type=kind, resource_name=broker, name=MIN_ISR, value=None)
