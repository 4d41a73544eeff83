"""The handlers for configs, client quotas and client telemetry."""

from __future__ import annotations

from pykbroker.apis.configs.alter_configs import AlterConfigs
from pykbroker.apis.configs.describe_client_quotas import DescribeClientQuotas
from pykbroker.apis.configs.describe_configs import DescribeConfigs
from pykbroker.apis.configs.get_telemetry_subscriptions import GetTelemetrySubscriptions
from pykbroker.apis.configs.incremental_alter_configs import IncrementalAlterConfigs
from pykbroker.apis.configs.list_config_resources import ListConfigResources
from pykbroker.apis.configs.push_telemetry import PushTelemetry
from pykbroker.apis.controller_apis import ControllerHandler
from pykbroker.broker.parts import Parts
from pykbroker.core.telemetry.clients import TelemetryClients
from pykbroker.quorum.own_configs import OwnConfigs
from pykbroker.server.handler import Handler
from wire.api import ApiKey


def config_handlers(parts: Parts, answer_bytes_max: int, *, of_controllers: bool = False) -> list[Handler]:
    """Return the handlers of `apis.configs`, for a listener of clients or of controllers.

    `answer_bytes_max` limits the size of a DescribeConfigs response.
    """
    controller, image, node_id = parts.controller, parts.image, parts.identity.node_id
    clients, ticks_ns, bytes_max = TelemetryClients(), parts.world.ticks_ns, parts.settings.config.telemetry_max_bytes
    requests, off_loop = parts.controller_requests, parts.world.off_loop
    own = None if of_controllers else OwnConfigs(node_id, parts.live_config, image, off_loop, parts.secured.check)
    return [
        DescribeConfigs(node_id, parts.live_config, image, answer_bytes_max),
        AlterConfigs(requests, own),
        IncrementalAlterConfigs(node_id, requests, own),
        ListConfigResources(image),
        DescribeClientQuotas(image),
        ControllerHandler(ApiKey.ALTER_CLIENT_QUOTAS, controller),
        GetTelemetrySubscriptions(clients, image, parts.world.rng, ticks_ns, bytes_max),
        PushTelemetry(clients, image, ticks_ns, bytes_max),
    ]
