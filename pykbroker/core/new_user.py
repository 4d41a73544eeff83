"""A user that a start makes unless it exists, who logs in with a password."""

from __future__ import annotations

import msgspec

from pykbroker.core.security.secret import Secret

NAME_CHARACTERS_MAX = 32_762
"""The longest name: behind `User:`, it is the principal of ACLs, and Kafka's strings have at most 32,767 bytes."""


class NewUser(msgspec.Struct, frozen=True):
    """A user with a password.

    The password is that of the option `--user`, also if the user exists. A generated one is only for a new user.
    """

    name: str
    password: Secret
    is_generated: bool = False
