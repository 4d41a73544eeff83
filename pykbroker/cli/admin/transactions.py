"""The commands of `pykbroker transactions`, which list and describe the transactional ids of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from pykbroker.cli.ask import asking
from pykbroker.cli.tables import Table, json_option

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from wire.messages.describe_transactions import TransactionState

LISTED = ("transactional_id", "coordinator", "producer_id", "state")
DESCRIBED = (*LISTED[:3], "producer_epoch", "state", "timeout_ms", "start_time_ms", "partitions")


@click.group()
def transactions() -> None:
    """List and describe the transactional ids of a running cluster."""


@transactions.command("list")
@json_option
@asking
async def list_transactions(admin: Admin, as_json: bool) -> None:
    """List all transactional ids, with the state of their last transaction."""
    Table(LISTED, sorted(await listed(admin))).show(as_json=as_json)


@transactions.command()
@click.argument("transactional_ids", nargs=-1, required=True)
@json_option
@asking
async def describe(admin: Admin, transactional_ids: Sequence[str], as_json: bool) -> None:
    """Describe transactional ids: their producers, and the partitions of their open transactions.

    A transactional id that no coordinator has does not prevent the description of others.
    """
    rows, refusals = await described(admin, list(dict.fromkeys(transactional_ids)))
    Table(DESCRIBED, rows).show(as_json=as_json, refusals=refusals)


async def listed(admin: Admin) -> list[tuple[Any, ...]]:
    """Return a row for each transactional id of all coordinators. ApiError: a coordinator has refused."""
    from pykbroker.client.admin.admin import check
    from pykbroker.client.brokers import Brokers
    from wire.messages.list_transactions import ListTransactionsRequest

    rows = []
    with closing(Brokers(admin)) as brokers:
        for node_id, connection in (await brokers.connections()).items():
            answer = await connection.ask(ListTransactionsRequest())
            check(answer.error_code, f"transactions of broker {node_id}")
            rows += [
                (each.transactional_id, node_id, each.producer_id, each.transaction_state)
                for each in answer.transaction_states
            ]
    return rows


async def described(admin: Admin, transactional_ids: list[str]) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return a row for each transactional id that a coordinator has, and a sentence for each other one.

    All brokers are asked. FindCoordinator would create __transaction_state in a cluster without transactions.
    """
    from pykbroker.client.admin.admin import error_name
    from pykbroker.client.brokers import Brokers
    from wire.error_codes import ErrorCode
    from wire.messages.describe_transactions import DescribeTransactionsRequest

    rows, errors = {}, dict.fromkeys(transactional_ids, int(ErrorCode.NOT_COORDINATOR))
    with closing(Brokers(admin)) as brokers:
        for node_id, connection in (await brokers.connections()).items():
            answer = await connection.ask(DescribeTransactionsRequest(transactional_ids))
            for each in answer.transaction_states:
                if not each.error_code:
                    rows[each.transactional_id] = row(each, node_id)
                elif each.error_code != ErrorCode.NOT_COORDINATOR:
                    errors[each.transactional_id] = each.error_code
    refusals = [
        f"no broker describes the transactional id '{key}' ({error_name(errors[key])})"
        for key in transactional_ids
        if key not in rows
    ]
    return [rows[key] for key in transactional_ids if key in rows], refusals


def row(state: TransactionState, coordinator: int) -> tuple[Any, ...]:
    """Return the cells of a `TransactionState`. The start time is None before the first transaction of the id."""
    return (
        state.transactional_id,
        coordinator,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        [f"{topic.topic}-{partition}" for topic in state.topics for partition in topic.partitions],
    )
