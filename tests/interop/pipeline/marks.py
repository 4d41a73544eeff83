"""The marks of the tests with Spark."""

from __future__ import annotations

import pytest

TEST_S_MAX = 120
"""The time of a test that uses the session of all tests, which is prepared before."""


def spark_marks(seconds: int = TEST_S_MAX) -> list[pytest.MarkDecorator]:
    """Return the marks of a module. `seconds` is the time of a test, which is more if it starts a JVM of its own."""
    warnings = pytest.mark.filterwarnings("ignore")  # the Java version and jars of pyspark
    return [pytest.mark.timeout(seconds, func_only=True), warnings]
