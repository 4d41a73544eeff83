"""The configs of Kafka's StandardAuthorizer. Two are its own, and not in the table: DescribeConfigs has no value."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pykbroker.core.config.java_classes import AUTHORIZER, STANDARD_AUTHORIZER
from pykbroker.core.config.type import refuse

SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
OF_AUTHORIZER = (SUPER_USERS, ALLOW_EVERYONE)


class AuthorizerSettings(msgspec.Struct, frozen=True):
    """The settings of the authorizer. `super_users` are principals that may do everything."""

    super_users: frozenset[str] = frozenset()
    allows_without_acls: bool = False


def authorizer_settings(texts: Mapping[str, str], ignored: Collection[str]) -> AuthorizerSettings | None:
    """Return the settings of the authorizer, or None if the broker has none. Raise ApiError INVALID_CONFIG."""
    if AUTHORIZER in ignored or texts.get(AUTHORIZER, "").strip() != STANDARD_AUTHORIZER:
        return None
    users = frozenset(filter(None, (user.strip() for user in texts.get(SUPER_USERS, "").split(";"))))
    for user in users:
        if ":" not in user:
            raise refuse(f"{SUPER_USERS}: {user} is no principal. Write TYPE:NAME;TYPE:NAME, such as User:{user}")
    return AuthorizerSettings(users, texts.get(ALLOW_EVERYONE, "").strip().lower() == "true")
