"""The response to a request that failed as a whole."""

from __future__ import annotations

import logging
from typing import Any

from pykbroker.core.errors import ApiError
from pykbroker.server.handler import CloseConnection
from pykbroker.server.table import Route
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.refusal import refusal

logger = logging.getLogger(__name__)


def failure(route: Route, request: Request[Any], error: Exception) -> Response:
    """Return the error response of the request's API.

    An `ApiError` has the error code and the message. Any other error is a bug of this broker: it is logged with a
    traceback, and the client gets UNKNOWN_SERVER_ERROR. Raise CloseConnection if the client of a Produce with acks=0
    awaits no response.
    """
    route.errors += 1
    code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
    if isinstance(error, ApiError):
        code, message = error.code, error.message
    else:
        logger.error(
            "%s version %s: the handler failed, and the client gets UNKNOWN_SERVER_ERROR",
            route.key.name,
            route.version,
            exc_info=error,
        )
    if getattr(request, "acks", None) == 0:
        raise CloseConnection(f"{route.key.name} with acks=0 failed: {code.name}")
    response: Response = refusal(request, route.version, code, message)
    return response
