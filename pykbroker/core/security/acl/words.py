"""ACLs in words, and the commands `pykbroker acls` that allow what an authorizer denies, ready for a shell."""

from __future__ import annotations

import shlex

from pykbroker.core.security.acl.acl import Acl, PatternType, name_of
from pykbroker.core.security.operation import Operation, ResourceType

USER = "User:"
COMMAND = "pykbroker acls"
OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}
"""The options of the commands that name a resource of each type, apart from the cluster."""
ASCII_END = 0x80


def resource_text(kind: int, name: str, *, is_prefix: bool) -> str:
    """Return a resource in words."""
    if kind == ResourceType.CLUSTER:
        return "the cluster"
    noun = name_of(ResourceType, kind).lower().replace("_", " ")
    if is_prefix:
        return f"every {noun} whose name begins with {name}"
    return f"every {noun}" if name == "*" else f"{noun} {name}"


def allow_command(principal: str, operation: int, kind: int, name: str) -> str:
    """Return the command that allows an operation on one resource."""
    return f"{COMMAND} allow {_what(principal, operation)} {options(kind, name, is_prefix=False)}"


def remove_command(acl: Acl) -> str:
    """Return the command that removes an ACL that denies. It leaves the ACLs that allow, and those of other hosts."""
    is_prefix = acl.pattern_type == PatternType.PREFIXED
    of = options(acl.resource_type, acl.resource_name, is_prefix=is_prefix)
    return f"{COMMAND} remove {_what(acl.principal, acl.operation)} {of} --host {quoted(acl.host)} --denials"


def options(kind: int, name: str, *, is_prefix: bool) -> str:
    """Return the options of the commands that name a resource, which is one of `OPTIONS` or the cluster."""
    if kind == ResourceType.CLUSTER:
        return "--cluster"
    return f"{OPTIONS[ResourceType(kind)]} {quoted(name)}" + " --prefix" * is_prefix


def has_command(kind: int) -> bool:
    """Whether the commands are about resources of this type."""
    return kind == ResourceType.CLUSTER or kind in OPTIONS


def quoted(text: str) -> str:
    """Return one word for a shell, on one line."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(each if each.isprintable() and each not in "'\\" else _escape(each) for each in text) + "'"


def _what(principal: str, operation: int) -> str:
    """Return the arguments with the user and the operation. A name may not look like an option or a principal."""
    name = principal.removeprefix(USER)
    is_name = principal.startswith(USER) and name and ":" not in name and not name.startswith("-")
    return f"{quoted(name if is_name else principal)} {name_of(Operation, operation)}"


def _escape(character: str) -> str:
    """Return a character as in the words of shells that begin with $'."""
    number = ord(character)
    return f"\\x{number:02x}" if number < ASCII_END else f"\\U{number:08x}"
