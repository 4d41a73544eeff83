"""The errors of the format `pykbroker`."""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger("pykbroker.pipeline.source")

_LOSS = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed."
)


class InvalidOption(ValueError):
    """The error of an option that is missing, unknown, or not allowed with this value or in this kind of query."""


class InvalidColumn(ValueError):
    """The error of a column that rows need to be written and lack, or that has a wrong type or content."""


class DataLoss(RuntimeError):
    """The error of records that a query was to read and that the cluster no longer has."""


class ReadStalled(TimeoutError):
    """The error of a task that gets no record for `kafkaConsumer.pollTimeoutMs`."""


def report_losses(reasons: Iterable[str], *, fails: bool) -> None:
    """Log the reasons why records are lost. Raise DataLoss for the first one if `fails` is true."""
    for reason in reasons:
        if fails:
            raise DataLoss(
                f"{_LOSS} If you don't want your streaming query to fail on such cases, set the source option "
                f"failOnDataLoss to false. Reason: {reason}"
            )
        log.warning(
            "%s If you want your streaming query to fail on such cases, set the source option failOnDataLoss to true. "
            "Reason: %s",
            _LOSS,
            reason,
        )
