"""AssignReplicasToDirs (73), v0: record in which log directory a broker has each replica (KIP-858).

A partition that the broker has no replica of gets an error code in its own result.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.quorum.active_controller import ActiveController
from pykbroker.server.handler import Handler, Later, RequestContext
from wire.api import ApiKey
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest


class AssignReplicasToDirs(Handler, msgspec.Struct, frozen=True):
    """A handler that passes the request to the controller."""

    key: ClassVar = ApiKey.ASSIGN_REPLICAS_TO_DIRS
    versions: ClassVar[str] = "0"
    controller: ActiveController

    def __call__(self, context: RequestContext, request: AssignReplicasToDirsRequest) -> Later:
        return Later(self.controller.ask(request), holds_connection=False)
