"""The response to a request that failed as a whole."""

from __future__ import annotations

import logging
from typing import Any

from pykbroker.core.errors import ApiError
from pykbroker.server.handler import CloseConnection
from pykbroker.server.table import Route
from wire.api import APIS
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.schema import fields_of

logger = logging.getLogger(__name__)


def failure(route: Route, request: Any, error: Exception) -> Response:
    """Return the error response of the request's API.

    An `ApiError` has the error code. Any other error is a bug of this broker: it is logged with a traceback, and the
    client gets UNKNOWN_SERVER_ERROR. Raise CloseConnection if the API's response has no error code in this version.
    """
    route.errors += 1
    code = error.code if isinstance(error, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
    if not isinstance(error, ApiError):
        logger.error(
            "%s version %s: the handler failed, and the client gets UNKNOWN_SERVER_ERROR",
            route.key.name,
            route.version,
            exc_info=error,
        )
    response = route.handler.refuse(request, code)
    if response is not None:
        return fitted(response, route.version)
    response_class = APIS[route.key].response
    names = {field.name for field in fields_of(response_class) if route.version in field.versions}
    if "error_code" not in names:
        raise CloseConnection(f"{route.key.name} has no response for {code.name}")
    if "error_message" in names:
        return response_class(error_code=code, error_message=None)
    return response_class(error_code=code)


def fitted(response: Response, version: int) -> Response:
    """Reset the fields that this version lacks, such as the top-level error code. The response can then be encoded."""
    for field in fields_of(type(response)):
        if version not in field.versions:
            setattr(response, field.name, field.default)
    return response
