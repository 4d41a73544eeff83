"""AlterConfigs (33), v0-2: replace all configs of resources; configs that are not named are removed (KIP-133).

v2 flexible
A change takes effect at once: the response is sent after this broker has applied it.
"""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.alter_configs import key_of
from pykbroker.core.security.rights import ALTER_CONFIGS, require_for_config
from pykbroker.quorum.own_configs import OwnConfigs
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.handler import ApiHandler, Later, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigs(ApiHandler, frozen=True):
    """A handler that authorizes each resource and passes the request to the controller.

    A listener of clients accepts the configs of this broker alone, which it checks (`own`). A listener of controllers
    accepts those of any broker, since that has checked them. The results are in the order of the request.
    """

    controller: ControllerRequests
    """The requests to the controller, which authorizes the client if it is in another process.

    For configs of this broker the client is authorized here first, since `own` reads the files that they name.
    """
    own: OwnConfigs | None = None

    def __call__(self, context: RequestContext, request: AlterConfigsRequest) -> Later:
        # the next request sees the change
        return Later(self._answer(context, request), holds_connection=True, awaits_node=True)

    async def _answer(self, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
        resources, allowed, answers = request.resources, [], {}
        for resource in resources:
            try:
                if not self.controller.are_authorized or resource.resource_type == ConfigResource.BROKER:
                    require_for_config(context, ALTER_CONFIGS, key_of(resource))
                if self.own is not None:
                    await self.own.check(resource)
                allowed.append(resource)
            except ApiError as error:
                answers[key_of(resource)] = failed(resource, error.code, error.message)
        response = await self.controller.ask(context, replace(request, resources=allowed))
        answers.update({key_of(answer): answer for answer in response.responses})
        response.responses = [answers[key_of(resource)] for resource in resources]
        return response


def failed(resource: AlterConfigsResource, code: ErrorCode, message: str | None = None) -> AlterConfigsResourceResponse:
    """Return the result of a resource that was not changed."""
    return AlterConfigsResourceResponse(code, message, *key_of(resource))
