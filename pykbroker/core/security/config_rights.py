"""The permission for reading or changing a resource's configs, and the error for a client without it."""

from __future__ import annotations

from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.errors import ApiError
from pykbroker.core.security.authorizer import CLUSTER_NAME, Authorizer
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from wire.error_codes import ErrorCode

CLUSTER = ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NEEDS: dict[int, tuple[ResourceType, ErrorCode]] = {
    ConfigResource.TOPIC: (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ConfigResource.BROKER: CLUSTER,
    ConfigResource.BROKER_LOGGER: CLUSTER,
    ConfigResource.CLIENT_METRICS: CLUSTER,
    ConfigResource.GROUP: (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}


def check_config_right(
    authorizer: Authorizer, session: Session, operation: Operation, resource: tuple[int, str]
) -> None:
    """Raise ApiError if the client lacks the permission.

    For an unknown resource type every client has it, so that every client gets the same error.
    """
    kind, name = resource
    if kind in NEEDS:
        needed, code = NEEDS[kind]
        name = CLUSTER_NAME if needed is ResourceType.CLUSTER else name
        if not authorizer.allows(session, operation, needed, name):
            raise ApiError(code)
