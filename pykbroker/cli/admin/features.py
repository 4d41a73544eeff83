"""The command `pykbroker features describe`, which prints the feature levels of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pykbroker.cli.ask import asking
from pykbroker.cli.tables import Table, json_option
from pykbroker.core.version import VERSION
from wire.sentinels import NO_FEATURES_EPOCH

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin

COLUMNS = ("feature", "supported_min_version", "supported_max_version", "finalized_version_level", "epoch")
FEATURES_VERSION_FIRST = 3
"""The first version of ApiVersions that has features (KIP-584)."""


@click.group()
def features() -> None:
    """Describe the features of a running cluster."""


@features.command()
@json_option
@asking
async def describe(admin: Admin, as_json: bool) -> None:
    """Describe the versions of each feature that the broker supports, and the level that is finalized.

    The level is 0 for a feature that is disabled.
    """
    from pykbroker.client.admin.admin import check
    from wire.messages.api_versions import ApiVersionsRequest

    version = admin.connection.newest_version(ApiVersionsRequest.key)
    if version < FEATURES_VERSION_FIRST:
        raise click.ClickException("the broker has no features: it is older than Apache Kafka 2.4")
    answer = await admin.connection.ask(ApiVersionsRequest("pykbroker", VERSION), version)
    check(answer.error_code, "features")
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    epoch = None if answer.finalized_features_epoch == NO_FEATURES_EPOCH else answer.finalized_features_epoch
    rows = [
        (each.name, each.min_version, each.max_version, levels.get(each.name, 0), epoch)
        for each in sorted(answer.supported_features, key=lambda each: each.name)
    ]
    Table(COLUMNS, rows).show(as_json=as_json)
