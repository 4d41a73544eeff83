"""The principal that an Envelope request carries."""

from typing import ClassVar

from wire.declare import Bool, Stored


class DefaultPrincipalData(Stored):
    """A principal that a broker forwards to the controller."""

    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    type: str = ""
    name: str = ""
    token_authenticated: Bool = False
