"""Tests of the warnings of the client on stderr."""

from __future__ import annotations

import logging

import pytest

from pykbroker.cli.client_warnings import REPEAT_S, WarningLines


def test_a_warning_is_printed_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    handler = WarningLines(lambda: now)
    logger = logging.getLogger("test_client_warnings")
    logger.addHandler(handler)
    logger.info("connected")
    for _ in range(3):
        logger.warning("broker %s is down", 1)
        logger.warning("broker %s is down", 2)
    assert capsys.readouterr().err == "Warning: broker 1 is down\nWarning: broker 2 is down\n"
    now = REPEAT_S
    logger.warning("broker %s is down", 1)
    assert capsys.readouterr().err == "Warning: broker 1 is down\n"
