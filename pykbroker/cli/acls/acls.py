"""The commands of `pykbroker acls`, which allow and deny, list and remove, and tell which ACL decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.acls.words import (
    host_address,
    host_option,
    one_resource,
    operation_names,
    operations,
    principal,
    resource,
    resource_options,
)
from pykbroker.cli.ask import asking
from pykbroker.cli.completion import user_names
from pykbroker.cli.tables import Table, json_option
from pykbroker.core.ip_address import java_text

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.core.security.operation import Operation

COLUMNS = ("principal", "permission", "operation", "resource", "name", "pattern", "host")

principal_argument = click.argument("principal", type=principal, metavar="USER", shell_complete=user_names)
operations_argument = click.argument(
    "operations", type=operations, metavar="OPERATION,...", shell_complete=operation_names
)


@click.group()
def acls() -> None:
    """Allow and deny what the users of a running cluster do.

    A USER is a name, '*' for every user, or a principal such as User:CN=app. An OPERATION is ALL, READ, WRITE, CREATE,
    DELETE, ALTER, DESCRIBE or another one of Kafka's.
    """


@acls.command()
@principal_argument
@operations_argument
@resource_options
@host_option
@asking
async def allow(admin: Admin, **options: Any) -> None:
    """Allow a user some operations on a resource."""
    await add(admin, allows=True, **options)


@acls.command()
@principal_argument
@operations_argument
@resource_options
@host_option
@asking
async def deny(admin: Admin, **options: Any) -> None:
    """Deny a user some operations on a resource, whatever other ACLs allow."""
    await add(admin, allows=False, **options)


@acls.command("list")
@click.option(
    "--user", "named", type=principal, metavar="USER", shell_complete=user_names, help="Only the ACLs of this user."
)
@resource_options
@json_option
@asking
async def list_acls(admin: Admin, named: str | None, as_json: bool, **options: Any) -> None:
    """List the ACLs, or those of a user, or those that apply to a resource."""
    from pykbroker.cli.acls.sentences import row
    from pykbroker.client.admin.acls import describe_acls
    from pykbroker.core.security.acl.acl import ANY, PatternType, order
    from pykbroker.core.security.acl.filter import AclFilter

    of = resource(**options)
    pattern = PatternType.MATCH if of is not None and not of.is_prefix else ANY
    wanted = AclFilter(ANY if of is None else of.kind, None if of is None else of.name, pattern, named, None, ANY, ANY)
    found = sorted(await describe_acls(admin, wanted), key=order)
    Table(COLUMNS, [row(acl) for acl in found]).show(as_json=as_json)


@acls.command()
@principal_argument
@click.argument(
    "operations", type=operations, metavar="[OPERATION,...]", required=False, shell_complete=operation_names
)
@resource_options
@click.option("--host", metavar="ADDRESS", type=java_text, help="Only the ACLs of this IP address; '*' stands for all.")
@click.option("--denials", is_flag=True, help="Only the ACLs that deny.")
@asking
async def remove(
    admin: Admin,
    principal: str,
    operations: tuple[Operation, ...] | None,
    host: str | None,
    denials: bool,
    **options: Any,
) -> None:
    """Remove the ACLs of a user about a resource, or some operations of them."""
    from pykbroker.cli.acls.sentences import sentence
    from pykbroker.client.admin.acls import delete_acls
    from pykbroker.core.security.acl.acl import ANY, PatternType, PermissionType, order
    from pykbroker.core.security.acl.filter import AclFilter
    from pykbroker.core.security.acl.words import resource_text

    of = one_resource(**options)
    pattern = PatternType.PREFIXED if of.is_prefix else PatternType.LITERAL
    chosen: tuple[int, ...] = operations or (ANY,)
    permission = PermissionType.DENY if denials else ANY
    filters = [AclFilter(of.kind, of.name, pattern, principal, host, each, permission) for each in chosen]
    removed = await delete_acls(admin, filters)
    for acl in sorted(removed, key=order):
        click.echo(f"removed: {sentence(acl)}")
    if not removed:
        about = resource_text(of.kind, of.name, is_prefix=of.is_prefix)
        raise click.ClickException(f"{principal} has no such ACL about {about}: `pykbroker acls list` lists all")


@acls.command()
@principal_argument
@operations_argument
@resource_options
@click.option("--host", metavar="ADDRESS", type=host_address, default="*", help="The IP address of the client.")
@asking
async def check(admin: Admin, principal: str, operations: tuple[Operation, ...], host: str, **options: Any) -> None:
    """Tell whether a user may do something, and which ACL decides, or which one is missing.

    The exit code is 1 if an operation is denied. Super users, whom only the brokers' configs name, may do everything.
    """
    from pykbroker.cli.acls.sentences import operation_text, sentence
    from pykbroker.client.admin.acls import describe_acls
    from pykbroker.core.config.authorizer_configs import ALLOW_EVERYONE, SUPER_USERS
    from pykbroker.core.security.acl.acl import ANY, Acl, PatternType
    from pykbroker.core.security.acl.filter import AclFilter
    from pykbroker.core.security.acl.index import AclIndex
    from pykbroker.core.security.acl.words import allow_command, resource_text

    of = one_resource(**options)
    if of.is_prefix:
        raise click.UsageError("a check is about one resource: leave --prefix out")
    found = await describe_acls(admin, AclFilter(of.kind, of.name, PatternType.MATCH, None, None, ANY, ANY))
    index = AclIndex()
    index.update({str(number).encode(): acl for number, acl in enumerate(found)})
    about = resource_text(of.kind, of.name, is_prefix=False)
    denied = False
    for operation in operations:
        rule = index.rule(principal, host, operation, of.kind, of.name)
        denied |= not rule.allows
        may, unless = ("may", "") if rule.allows else ("may not", f", unless {SUPER_USERS} has it")
        if isinstance(rule.reason, Acl):
            reason = f"the ACL that decides is '{sentence(rule.reason)}'"
        else:
            unless += "" if found else f" or {ALLOW_EVERYONE} is true"
            reason = "no ACL allows it" if found else "no ACL is about it"
            reason += f"; to allow it: {allow_command(principal, operation, of.kind, of.name)}"
        click.echo(f"{principal} {may} {operation_text(operation)} {about}{unless}: {reason}")
    if denied:
        raise click.exceptions.Exit(1)


async def add(
    admin: Admin, *, allows: bool, principal: str, operations: tuple[Operation, ...], host: str, **options: Any
) -> None:
    """Create an ACL for each operation."""
    from pykbroker.cli.acls.sentences import sentence
    from pykbroker.client.admin.acls import create_acls
    from pykbroker.core.security.acl.acl import Acl, PatternType, PermissionType

    of = one_resource(**options)
    pattern = PatternType.PREFIXED if of.is_prefix else PatternType.LITERAL
    permission = PermissionType.ALLOW if allows else PermissionType.DENY
    made = [Acl(of.kind, of.name, pattern, principal, host, each, permission) for each in operations]
    await create_acls(admin, made)
    for acl in made:
        click.echo(sentence(acl))
