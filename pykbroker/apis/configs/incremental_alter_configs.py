"""IncrementalAlterConfigs (44), v0-1: set, unset, append to and subtract from configs of resources (KIP-339).

v1 flexible
A change takes effect at once: the response is sent after this broker has applied it. Log levels (KIP-412) last until
the broker stops.
"""

from __future__ import annotations

from collections import Counter

import trio
from msgspec.structs import replace

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError, bad_request
from pykbroker.core.metadata.alter_configs import REPEATED, key_of
from pykbroker.core.security.rights import INCREMENTAL_ALTER_CONFIGS, require, require_for_config
from pykbroker.core.steps import Steps, each
from pykbroker.quorum.own_configs import OwnConfigs
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from pykbroker.server.log_levels import alter_levels
from pykbroker.world.portions import AT_ONCE_MAX
from wire.error_codes import ErrorCode
from wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class IncrementalAlterConfigs(ApiHandler, frozen=True):
    """A handler that authorizes each resource, sets log levels, and passes all other changes to the controller.

    A listener of clients accepts the configs of this broker alone, which it checks (`own`). A listener of controllers
    accepts those of any broker, since that has checked them. The results are in the order of the request.
    """

    node_id: int
    controller: ControllerRequests
    """The requests to the controller, which authorizes the client if it is in another process.

    For configs and log levels of this broker the client is authorized here first: the broker sets its own log levels,
    and `own` reads the files that the configs name.
    """
    own: OwnConfigs | None = None

    def __call__(self, context: RequestContext, request: IncrementalAlterConfigsRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: IncrementalAlterConfigsRequest) -> Answer:
        resources, allowed, answers = request.resources, [], {}
        times = Counter(map(key_of, resources))
        for count, resource in enumerate(resources, 1):
            if count % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            try:
                if times[key_of(resource)] > 1:
                    raise bad_request(REPEATED)
                if resource.resource_type == ConfigResource.BROKER_LOGGER:
                    require(context, INCREMENTAL_ALTER_CONFIGS[ConfigResource.BROKER_LOGGER])  # without a message
                elif not self.controller.are_authorized or resource.resource_type == ConfigResource.BROKER:
                    require_for_config(context, INCREMENTAL_ALTER_CONFIGS, key_of(resource))
                if self.own is not None:
                    await self.own.check(resource)
                if resource.resource_type == ConfigResource.BROKER_LOGGER:
                    alter_levels(resource, self.node_id, validate_only=request.validate_only)
                    answers[key_of(resource)] = answered(resource, ErrorCode.NONE)
                else:
                    allowed.append(resource)
            except ApiError as error:
                answers[key_of(resource)] = answered(resource, error.code, error.message)
        response = IncrementalAlterConfigsResponse()
        if allowed:  # else the level of a logger is set also while the controller is away, as in Kafka
            response = await self.controller.ask(context, replace(request, resources=allowed))
        return now_or_later(in_order(resources, answers, response))


def in_order(
    resources: list[AlterConfigsResource],
    answers: dict[tuple[int, str], AlterConfigsResourceResponse],
    response: IncrementalAlterConfigsResponse,
) -> Steps[IncrementalAlterConfigsResponse]:
    """Return the controller's results and `answers` in one response, in the order of the request."""
    for answer in response.responses:
        answers[key_of(answer)] = answer
        yield
    response.responses = yield from each(lambda resource: answers[key_of(resource)], resources)
    return response


def answered(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None = None
) -> AlterConfigsResourceResponse:
    """Return the result of a resource."""
    return AlterConfigsResourceResponse(code, message, *key_of(resource))
