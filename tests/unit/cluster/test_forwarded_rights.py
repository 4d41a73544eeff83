"""The rights of clients whose requests a broker forwards: the controller decides, once, by who the client is."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cluster.nodes import cluster
from wire.declare import Request
from wire.messages import alter_configs as whole
from wire.messages import incremental_alter_configs as incremental
from wire.messages.alter_client_quotas import AlterClientQuotasRequest
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

TOPIC, BROKER_LOGGER, SET = 2, 8, 0
AUDITED = re.compile(r"operation = (\w+) from host = 127.0.0.1 on resource = (\S+) for request = (\w+)")
REQUESTS: list[tuple[Request[Any], int]] = [
    (CreateTopicsRequest([CreatableTopic("t", 1, 1)], validate_only=True), 7),
    (AlterClientQuotasRequest(validate_only=True), 1),
    (whole.AlterConfigsRequest([whole.AlterConfigsResource(TOPIC, "t")], validate_only=True), 2),
    (
        incremental.IncrementalAlterConfigsRequest(
            [
                incremental.AlterConfigsResource(TOPIC, "t"),
                incremental.AlterConfigsResource(
                    BROKER_LOGGER, "2", [incremental.AlterableConfig("pykbroker", SET, "INFO")]
                ),
            ],
            validate_only=True,
        ),
        1,
    ),
]


async def test_a_forwarded_request_is_decided_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    configs = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:ANONYMOUS",
    }
    async with cluster(tmp_path, 1, 2, **configs) as running:
        caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
        caplog.clear()
        for request, version in REQUESTS:
            await running.clients[2].call(request, version)
    decisions = [found.groups() for line in caplog.messages if (found := AUDITED.search(line))]
    assert [one for one in decisions if one[0] != "CLUSTER_ACTION"] == [
        ("CREATE", "Cluster:LITERAL:kafka-cluster", "CreateTopics"),
        ("DESCRIBE_CONFIGS", "Topic:LITERAL:t", "CreateTopics"),
        ("ALTER_CONFIGS", "Cluster:LITERAL:kafka-cluster", "AlterClientQuotas"),
        ("ALTER_CONFIGS", "Topic:LITERAL:t", "AlterConfigs"),
        ("ALTER_CONFIGS", "Cluster:LITERAL:kafka-cluster", "IncrementalAlterConfigs"),
        ("ALTER_CONFIGS", "Topic:LITERAL:t", "IncrementalAlterConfigs"),
    ]
