"""The difference between two images, for an image that comes from a snapshot instead of from records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykbroker.core.metadata.image import Delta, MetadataImage


def difference(previous: MetadataImage, image: MetadataImage) -> Delta:
    """Return the changes that lead from one image to the other."""
    before, after = previous.topics.by_id, image.topics.by_id
    return Delta(
        previous,
        image,
        topics_changed=frozenset(topic_id for topic_id, topic in after.items() if before.get(topic_id) != topic),
        topics_deleted=tuple(topic for topic_id, topic in before.items() if topic_id not in after),
        configs_changed=changed(previous.configs.resources, image.configs.resources),
        brokers_changed=changed(previous.cluster.brokers, image.cluster.brokers),
    )


def changed(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> frozenset[Any]:
    """Return the keys that only one of the mappings has, or whose values differ."""
    return frozenset(key for key in {*before, *after} if before.get(key) != after.get(key))
