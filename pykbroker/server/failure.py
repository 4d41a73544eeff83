"""The one place that turns a request that failed as a whole into its API's error response."""

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
    """`ApiError` answers its code; anything else is a bug here: UNKNOWN_SERVER_ERROR and a traceback.

    A handler whose response has, in some version, no error code of its own has `refuse(request, code)`.
    """
    route.errors += 1
    code = error.code if isinstance(error, ApiError) else ErrorCode.UNKNOWN_SERVER_ERROR
    if not isinstance(error, ApiError):
        logger.error("%s version %s failed", route.key.name, route.version, exc_info=error)
    refuse = getattr(route.handler, "refuse", None)
    if refuse is not None:
        response: Response = refuse(request, code)
        return fitted(response, route.version)
    response_class = APIS[route.key].response
    if not any(field.name == "error_code" and route.version in field.versions for field in fields_of(response_class)):
        raise CloseConnection(f"{route.key.name} has no answer for {code.name}")
    return response_class(error_code=code)


def fitted(response: Response, version: int) -> Response:
    """Without what this version has no field for: the error of the whole, say, where each part has it, too."""
    for field in fields_of(type(response)):
        if version not in field.versions:
            setattr(response, field.name, field.default)
    return response
