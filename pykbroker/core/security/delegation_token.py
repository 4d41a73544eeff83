"""Why requests about delegation tokens are refused (KIP-48): the broker has no `delegation.token.secret.key`."""

from __future__ import annotations

from pykbroker.core.security.session import ANONYMOUS, Session
from wire.error_codes import ErrorCode


def refusal_code(session: Session) -> ErrorCode:
    """Return the error for a client. As in Kafka, one that is not authenticated may not ask, whatever the config."""
    if session.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
