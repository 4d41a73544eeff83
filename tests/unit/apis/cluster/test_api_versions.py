"""ApiVersions: the cluster's features, as in Apache Kafka, without the features that this broker does not implement."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.features import KRAFT_FEATURE, NEW_CLUSTER, NOT_IMPLEMENTED, advertised
from tests.unit.apis.conftest import Client
from wire.messages.api_versions import ApiVersionsRequest

GOLDEN = Path(__file__).parents[3] / "data" / "golden" / "wire-decoded.jsonl.xz"


@cache
def answered(version: int) -> dict[str, Any]:
    """Return the recorded response that Kafka sent to a client of this version."""
    return next(
        body
        for body in _answers(version)
        if any(feature["name"] == METADATA_FEATURE for feature in body["supportedFeatures"])
    )


def _answers(version: int) -> Iterator[dict[str, Any]]:
    with lzma.open(GOLDEN, "rt") as lines:
        for line in lines:
            pair = json.loads(line)
            if pair["api"] == "ApiVersions" and pair["version"] == version and pair["response"]:
                yield pair["response"]["body"]


@pytest.mark.parametrize("version", [3, 4])
async def test_features_are_listed_as_by_kafka(client: Client, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = await client.call(request, version)
    kafka = answered(version)
    assert {one.name: (one.min_version, one.max_version) for one in response.supported_features} == {
        one["name"]: (one["minVersion"], one["maxVersion"])
        for one in kafka["supportedFeatures"]
        if one["name"] not in NOT_IMPLEMENTED
    }
    assert {one.name: (one.min_version_level, one.max_version_level) for one in response.finalized_features} == {
        one["name"]: (one["minVersionLevel"], one["maxVersionLevel"])
        for one in kafka["finalizedFeatures"]
        if one["name"] not in NOT_IMPLEMENTED
    } | {KRAFT_FEATURE: (1, 1)}  # the recorded cluster is of kraft.version 0, which is not listed
    assert response.finalized_features_epoch > 0


def test_unsupported_levels_and_unknown_features_are_not_listed() -> None:
    levels = {**NEW_CLUSTER, "group.version": 2, "new.version": 1}
    assert advertised(levels) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
    }
