"""ControllerRegistration (70), v0: record the endpoints and features of a controller (KIP-919).

The cluster has one controller, which registers itself.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.controller_registration import ControllerRegistrationRequest


class ControllerRegistration(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.CONTROLLER_REGISTRATION
    versions: ClassVar[str] = "0"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: ControllerRegistrationRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=False)
