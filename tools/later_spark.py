"""Run tests on a later Spark: `python -m tools.later_spark [VERSION [TEST...]]`.

The tests are those of the format `pykbroker`, and a small run of every job. The environment of the tests is
`.cache/spark-VERSION`. The first run creates it by `constraints.txt`, apart from the version of pyspark. `tools/test`
runs all tests on the version that `constraints.txt` pins.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
CONSTRAINTS = REPOSITORY / "constraints.txt"
VERSION = "4.2.0"
UNIT_TESTS, INTEROP_TESTS = "tests/unit/pipeline/source", "tests/interop/pipeline/test_source_*.py"
JOBS = "tests/interop/pipeline/test_later_jobs.py"
REQUIREMENTS = REPOSITORY / "tools" / "requirements.txt"
INSTALL_S_MAX = 1200


def is_later() -> bool:
    """Whether this Python has another version of pyspark than `constraints.txt`."""
    return f"pyspark=={version('pyspark')}" not in CONSTRAINTS.read_text().splitlines()


def constraints(lines: Iterable[str]) -> str:
    """Return the lines of `constraints.txt` without those that pin Spark and its Java bridge."""
    return "".join(line for line in lines if not line.startswith(("pyspark==", "py4j==")))


def tests() -> list[str]:
    """Return the tests of the format `pykbroker`, and those of all jobs."""
    return [UNIT_TESTS, *sorted(str(path.relative_to(REPOSITORY)) for path in REPOSITORY.glob(INTEROP_TESTS)), JOBS]


def prepare(spark: str) -> Path:
    """Return the Python of the environment for a version of pyspark. Create the environment if it is missing."""
    directory = REPOSITORY / ".cache" / f"spark-{spark}"
    python, made = directory / "bin" / "python", directory / "made"
    if made.exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    without_spark = directory / "constraints.txt"
    without_spark.write_text(constraints(CONSTRAINTS.read_text().splitlines(keepends=True)))
    needs = ["--editable", f"{REPOSITORY}[spark]", f"pyspark=={spark}", "--requirement", str(REQUIREMENTS)]
    install = [str(python), "-m", "pip", "install", "--quiet", *needs, "--constraint", str(without_spark)]
    subprocess.run(install, check=True, timeout=INSTALL_S_MAX)
    made.touch()
    return python


def main() -> None:
    """Prepare the environment, run the tests, and exit with the status of pytest."""
    parser = argparse.ArgumentParser(description="Run the format pykbroker and every job on another version of Spark.")
    parser.add_argument("version", nargs="?", default=VERSION, help=f"the version of pyspark (default: {VERSION})")
    parser.add_argument(
        "test", nargs="*", help="the tests to run (default: those of the format pykbroker and of all jobs)"
    )
    options = parser.parse_args()
    python = prepare(options.version)
    environ = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(python), "-m", "pytest", "-rs", "-n", "0", *(options.test or tests())]
    sys.exit(subprocess.run(command, cwd=REPOSITORY, env=environ, check=False).returncode)


if __name__ == "__main__":
    main()
