"""Download the jars that the tests with real clients and Spark need: ``python -m tools.downloads``.

A test whose jars could not be downloaded is skipped, and says why.
"""

from __future__ import annotations

from contextlib import suppress

from pykbroker.pipeline.errors import PipelineError
from tools import kafka_jars, spark_session


def main() -> None:
    """Download all jars that are not there yet."""
    with suppress(kafka_jars.NoJars):
        kafka_jars.fetch()
    with suppress(PipelineError):
        spark_session.fetch()


if __name__ == "__main__":
    main()
