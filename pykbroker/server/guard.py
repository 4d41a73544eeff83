"""The authorization of whole requests, before the handler of an API is called."""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.security.rights import RIGHTS, Right, require
from pykbroker.server.forwarding import ForwardedHandler
from pykbroker.server.handler import Answer, Handler, RequestContext


class GuardedHandler(Handler, msgspec.Struct, frozen=True):
    """A handler that refuses an unauthorized request, and passes every other request to the API's own handler."""

    handler: Handler
    right: Right

    def __call__(self, context: RequestContext, request: Any) -> Answer:
        require(context, self.right)
        return self.handler(context, request)

    def handle_large(self, context: RequestContext, request: Any) -> Answer:
        """Handle a large request as the API's own handler does."""
        require(context, self.right)
        return self.handler.handle_large(context, request)


def guarded(handler: Handler) -> Handler:
    """Return a handler that authorizes each request first, or the handler itself if it authorizes the parts.

    A request that is forwarded is authorized by the controller.
    """
    if isinstance(handler, ForwardedHandler):
        return handler
    for right in RIGHTS[handler.key]:
        if right.first:
            return GuardedHandler(handler, right)
    return handler
