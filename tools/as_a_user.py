"""Follow the README as a user does, without constraints: `python -m tools.as_a_user DIRECTORY_WITH_THE_WHEEL`.

In an empty environment the program runs the README's install lines, the command, and the Python examples. Spark is only
resolved, unless PYKBROKER_TEST_SPARK_INSTALL is set. The program exits with 1 at the first step that fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.broker_process import BrokerProcess
from tools.smoke import count_apis

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
INSTALLS = re.findall(r"pip install ('?pykbroker[^`'\n]*'?)", README)
CLIENTS = ("kafka-python", "confluent-kafka", "pytest")
"""The libraries that the examples import."""
ADDRESS = "127.0.0.1:9092"
SPARK = "SparkSession"
JOBS = re.findall(r"^pykbroker (pipeline .*)$", README, re.MULTILINE)
"""The commands of the README that need Spark."""
STEP_S_MAX = 600


class User:
    """An empty Python environment in a directory, for which another directory has the wheels."""

    def __init__(self, directory: Path, wheels: Path) -> None:
        self._directory = directory
        self.bin = directory / "venv" / "bin"
        links = f"{wheels} {os.environ.get('PIP_FIND_LINKS', '')}".strip()
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        self._environ = {**os.environ, "PATH": path, "PIP_FIND_LINKS": links}
        self._environ.pop("PYTHONPATH", None)
        subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True)

    def run(self, *command: str) -> str:
        """Return the output of a command; raise SystemExit if it fails."""
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=STEP_S_MAX,
        )
        if done.returncode:
            sys.exit(f"tools.as_a_user: {' '.join(command)[:200]} failed:\n{done.stdout}")
        return done.stdout

    def write(self, name: str, text: str) -> str:
        """Write a file into the user's directory; return its name."""
        (self._directory / name).write_text(text)
        return name


def install(user: User) -> None:
    """Run the README's install lines. An extra with Spark is only resolved, unless its flag is set."""
    for requirement in dict.fromkeys(line.strip("'") for line in INSTALLS):
        dry = ["--dry-run"] if "spark" in requirement and not with_spark() else []
        printed = user.run("pip", "install", *dry, requirement)
        print(f"pip install {' '.join([*dry, requirement])}: {printed.strip().splitlines()[-1][:150]}")
    user.run("pip", "install", "--quiet", *CLIENTS)


def with_spark() -> bool:
    """Whether Spark is to be installed."""
    return "PYKBROKER_TEST_SPARK_INSTALL" in os.environ


def main(wheels: Path) -> None:
    """Follow the README from its install lines to its examples."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        user = User(directory, wheels)
        install(user)
        broker = BrokerProcess(directory, "--memory", program=[str(user.bin / "pykbroker")])
        broker.start()
        try:
            print(f"pykbroker start: {count_apis(broker.port)} APIs")
            for number, block in enumerate(BLOCKS):
                text = block.replace(ADDRESS, broker.address)
                if "kafka_broker" in block:
                    user.run("python", "-m", "pytest", "-q", user.write("test_example.py", text))
                elif SPARK not in block or with_spark():
                    user.run("python", user.write(f"example_{number}.py", text))
            for job in JOBS if with_spark() else ():
                print(user.run("pykbroker", *job.split()))
            print(f"{len(BLOCKS)} examples of the README ran" + ("" if with_spark() else ", but that of Spark"))
        finally:
            broker.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
