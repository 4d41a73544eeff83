"""The authorization of whole requests, before the handler of an API is called."""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import AllowAll, Authorizer
from pykbroker.core.security.permissions import PERMISSIONS, ClusterRight
from pykbroker.core.security.session import Session
from pykbroker.server.handler import Answer, Handler, RequestContext
from wire.error_codes import ErrorCode


class GuardedHandler(Handler, msgspec.Struct, frozen=True):
    """A handler that refuses an unauthorized request, and passes every other request to the API's own handler."""

    handler: Handler
    right: ClusterRight
    authorizer: Authorizer

    def __call__(self, context: RequestContext, request: Any) -> Answer:
        self._check(context.session, request)
        return self.handler(context, request)

    def handle_large(self, context: RequestContext, request: Any) -> Answer:
        """Handle a large request as the API's own handler does."""
        self._check(context.session, request)
        return self.handler.handle_large(context, request)

    def _check(self, session: Session, request: Any) -> None:
        if not self.right.allows(self.authorizer, session, request):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def guarded(handler: Handler, version: int, authorizer: Authorizer) -> Handler:
    """Return a handler that authorizes each request first.

    The handler itself is returned if requests of this version need no operation on a resource, or if every client is
    authorized for it.
    """
    right = PERMISSIONS[handler.key].whole
    if right is None or version < right.version_first or isinstance(authorizer, AllowAll):
        return handler
    return GuardedHandler(handler, right, authorizer)
