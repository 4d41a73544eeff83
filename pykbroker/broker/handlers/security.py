"""The handlers for authentication, ACLs, SCRAM credentials and delegation tokens."""

from __future__ import annotations

from pykbroker.apis.controller_apis import ControllerHandler
from pykbroker.apis.security.create_acls import CreateAcls
from pykbroker.apis.security.create_delegation_token import CreateDelegationToken
from pykbroker.apis.security.delete_acls import DeleteAcls
from pykbroker.apis.security.describe_acls import DescribeAcls
from pykbroker.apis.security.describe_delegation_token import DescribeDelegationToken
from pykbroker.apis.security.describe_user_scram_credentials import DescribeUserScramCredentials
from pykbroker.apis.security.expire_delegation_token import ExpireDelegationToken
from pykbroker.apis.security.renew_delegation_token import RenewDelegationToken
from pykbroker.apis.security.sasl_authenticate import SaslAuthenticate
from pykbroker.apis.security.sasl_handshake import SaslHandshake
from pykbroker.broker.parts import Parts
from pykbroker.server.handler import Handler
from pykbroker.server.strangers import Strangers
from wire.api import ApiKey


def security_handlers(parts: Parts) -> list[Handler]:
    """Return the handlers of `apis.security`."""
    has_acls = parts.acl_authorizer is not None
    return [
        DescribeAcls(parts.image if has_acls else None),
        CreateAcls(parts.controller if has_acls else None),
        DeleteAcls(parts.controller if has_acls else None),
        SaslHandshake(Strangers(parts.world.ticks_ns)),
        SaslAuthenticate(),
        CreateDelegationToken(),
        RenewDelegationToken(),
        ExpireDelegationToken(),
        DescribeDelegationToken(),
        DescribeUserScramCredentials(parts.image),
        ControllerHandler(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, parts.controller),
    ]
