"""The programs of `examples/`: a table of them, and a run of each with a broker.

`python -m tools.examples` runs all programs, and `python -m tools.examples spark go` runs two of them. The command
prints a line for each: "ok", "failed" and the reason, or "skipped" and the missing program. It exits with 1 if one
failed. Libraries come from package registries and are kept in `.cache/` of this checkout. With `--secured`, the broker
has TLS and users, and the programs connect with the lines of `docs/security.md`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.broker_process import BrokerProcess
from tools.kafka_jars import CACHE, MAVEN_REPOSITORY
from tools.secured_examples import PASSWORD, REPLACEMENTS, USER, Secured, properties_of_page

EXAMPLES = Path(__file__).parent.parent / "examples"
RUN_SECONDS_MAX = 400
"""The time limit of one example, whose first run fetches its libraries."""
BUILT = ("target", "node_modules", "__pycache__")
COLORS = re.compile(r"\x1b\[[0-9;]*m")
GREETINGS = ("hello Ada", "hello Grace", "hello Edsger")


class ExampleFailed(Exception):
    """An error: an example cannot be prepared, exits with an error, or does not print the expected lines."""


@dataclass(frozen=True)
class Example:
    """A program: its directory and file, its command, and the lines that it prints, in any order.

    `address` is the end of the command, which names the broker's address; it is empty if the program starts a broker.
    Each line is a regular expression. `fetches` is true if a first run fetches libraries that the tests do not have.
    """

    directory: str
    file: str
    does: str
    command: str
    needs: str
    prints: tuple[str, ...]
    programs: tuple[str, ...] = ()
    address: str = " {}"
    fetches: bool = True

    def missing(self) -> str | None:
        """Return the name of a program that the example needs and this machine does not have, or None."""
        return next((program for program in self.programs if shutil.which(program) is None), None)

    def run(self, bootstrap: str, secured: Secured | None = None) -> None:
        """Run a copy of the example outside of the checkout. ExampleFailed: the text has the example's output.

        With `secured`, the copy connects by TLS, and logs in.
        """
        environ = {**os.environ, "MAVEN_OPTS": f"-Dmaven.repo.local={MAVEN_REPOSITORY}"}
        environ["PATH"] = f"{self._python()}{os.pathsep}{environ['PATH']}"
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / self.directory
            shutil.copytree(EXAMPLES / self.directory, copy, ignore=shutil.ignore_patterns(*BUILT))
            if secured is not None:
                secured.put_into(copy, self.file, bootstrap)
            self._check(run_shell(self.command + self.address.format(bootstrap), copy, environ))

    def _python(self) -> Path:
        """Return the directory of the `python` that has the example's libraries."""
        requirements = EXAMPLES / self.directory / "requirements.txt"
        if not requirements.exists():
            return Path(sys.executable).parent
        environment = CACHE / "examples" / self.directory
        made_for = environment / "requirements.txt"
        if not made_for.exists() or made_for.read_bytes() != requirements.read_bytes():
            run_shell(f"{sys.executable} -m venv --clear {environment}", EXAMPLES)
            run_shell(f"{environment}/bin/pip install --quiet --requirement {requirements}", EXAMPLES)
            shutil.copy(requirements, made_for)
        return environment / "bin"

    def _check(self, output: str) -> None:
        left = list(self.prints)
        for line in filter(None, COLORS.sub("", output).splitlines()):
            pattern = next((pattern for pattern in left if re.fullmatch(pattern, line)), None)
            if pattern is None:
                raise ExampleFailed(f"{self.directory} printed an unexpected line: {line}\n{output}")
            left.remove(pattern)
        if left:
            raise ExampleFailed(f"{self.directory} did not print {left}:\n{output}")


def run_shell(command: str, directory: Path, environ: dict[str, str] | None = None) -> str:
    """Return the stdout of a command. ExampleFailed: the command exited with an error, or took too long."""
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # killing the shell alone would leave its JVM running
            stdout, stderr = process.communicate()
            raise ExampleFailed(f"{command} took more than {RUN_SECONDS_MAX} s:\n{stdout}{stderr}") from None
    if process.returncode:
        raise ExampleFailed(f"{command} exited with {process.returncode}:\n{stdout}{stderr}")
    return stdout


PROGRAMS = [
    Example(
        "pytest",
        "test_orders.py",
        "tests a function with the fixture `kafka_broker`",
        "pytest -q --disable-warnings test_orders.py",
        "`pip install pykbroker pytest kafka-python`",
        (r"\. +\[100%\]", r"1 passed.*"),
        address="",
        fetches=False,
    ),
    Example(
        "kafka-python",
        "greet.py",
        "sends greetings and reads them in a group",
        "python greet.py",
        "`pip install kafka-python`",
        GREETINGS,
        fetches=False,
    ),
    Example(
        "aiokafka",
        "greet.py",
        "sends greetings and reads them in a group",
        "python greet.py",
        "`pip install aiokafka`",
        GREETINGS,
        fetches=False,
    ),
    Example(
        "confluent-kafka",
        "transact.py",
        "commits one transaction, aborts another, and reads committed records",
        "python transact.py",
        "`pip install confluent-kafka`",
        ("20 to Grace",),
        fetches=False,
    ),
    Example(
        "faststream",
        "invoices.py",
        "writes an invoice for each order that a group reads, and prints the invoices in a second group",
        "python invoices.py",
        "`pip install 'faststream[kafka]'`",
        ("Ada pays 24", "Grace pays 60"),
    ),
    Example(
        "quix",
        "balances.py",
        "keeps a balance for each account in a state store with a changelog topic, exactly once",
        "python balances.py",
        "`pip install quixstreams`",
        ("Ada has 10", "Grace has 20", "Ada has 15", "Grace has 12"),
    ),
    Example(
        "spark",
        "square.py",
        "writes a batch and sums it with a streaming query",
        "python square.py",
        "`pip install 'pykbroker[spark]'`, Java 17",
        (f"the sum of the squares is {sum(number**2 for number in range(100))}",),
        ("java",),
        fetches=False,
    ),
    Example(
        "java",
        "src/main/java/Greet.java",
        "sends greetings and reads them in a group of the consumer protocol",
        "mvn -q compile exec:java",
        "Java 17, Maven",
        GREETINGS,
        ("java", "mvn"),
        " -Dexec.args={}",
    ),
    Example(
        "kafka-streams",
        "src/main/java/CountWords.java",
        "counts words with `exactly_once_v2`, through a repartition and a changelog topic",
        "mvn -q compile exec:java",
        "Java 17, Maven",
        ("a 1", "a 2", "a 3", "is 1", "is 2", "rose 1", "rose 2", "rose 3"),
        ("java", "mvn"),
        " -Dexec.args={}",
    ),
    Example(
        "kafka-connect",
        "copy.sh",
        "copies a file to a topic with a source connector, and the topic to a file with a sink connector",
        "./copy.sh",
        "Java 17, Maven",
        GREETINGS,
        ("java", "mvn"),
    ),
    Example(
        "mirrormaker",
        "mirror.sh",
        "copies a topic from one cluster to another; without a second address, both are the same broker",
        "./mirror.sh",
        "Java 17, Maven",
        GREETINGS,
        ("java", "mvn"),
    ),
    Example(
        "spring",
        "src/main/java/greet/Greet.java",
        "creates a topic, sends greetings with a transactional template, and reads them with a listener",
        "mvn -q compile exec:java",
        "Java 17, Maven",
        GREETINGS,
        ("java", "mvn"),
        " -Dexec.args={}",
    ),
    Example(
        "flink",
        "src/main/java/Square.java",
        "squares numbers from topic to topic with `EXACTLY_ONCE`, although the job fails once",
        "mvn -q compile exec:exec",
        "Java 17, Maven",
        (f"the sum of the squares is {sum(number**2 for number in range(100))}",),
        ("java", "mvn"),
        " -Dbootstrap={}",
    ),
    Example(
        "node",
        "greet.js",
        "sends greetings and reads them in a group",
        "npm install --silent && node greet.js",
        "Node 18",
        GREETINGS,
        ("npm", "node"),
    ),
    Example("go", "main.go", "sends greetings and reads them in a group", "go run .", "Go 1.23", GREETINGS, ("go",)),
]


@contextmanager
def broker_of(directory: Path, *, is_secured: bool) -> Iterator[tuple[str, Secured | None]]:
    """Yield the address of a broker for examples, and what secured ones need."""
    users = directory / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    options = ("--data-dir", str(directory / "data"), "--tls", "auto", "--user", f"@{users}") if is_secured else ()
    broker = BrokerProcess(directory, *(options or ("--memory",)))
    broker.start()
    try:
        if not is_secured:
            yield broker.address, None
            return
        secured = Secured(directory / "data" / "tls-ca.pem", directory / "alice.properties")
        address = str(broker.announced.address)
        secured.properties.write_text(secured.filled(properties_of_page(), address))
        yield address, secured
    finally:
        broker.kill()


def outcome(example: Example, bootstrap: str, secured: Secured | None = None) -> str:
    """Run an example, unless a program is missing. Return "ok", "failed" or "skipped", with the reason."""
    if program := example.missing():
        return f"skipped: {program} is not installed"
    began = time.monotonic()
    try:
        example.run(bootstrap, secured)
    except ExampleFailed as error:
        return f"failed: {error}"
    return f"ok ({time.monotonic() - began:.1f} s)"


def main(names: list[str]) -> int:
    """Run the named examples, or all. Print a line for each. Return 1 if one failed, 2 if a name is unknown."""
    is_secured = "--secured" in names
    names = [name for name in names if name != "--secured"]
    if unknown := set(names) - {example.directory for example in PROGRAMS}:
        print(f"tools.examples: examples/ has no program {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    failed = False
    wanted = [each for each in PROGRAMS if not names or each.directory in names]
    if is_secured:
        wanted = [each for each in wanted if each.directory in REPLACEMENTS]
    with (
        tempfile.TemporaryDirectory() as directory,
        broker_of(Path(directory), is_secured=is_secured) as (address, secured),
    ):
        for example in wanted:
            result = outcome(example, address, secured)
            failed |= result.startswith("failed")
            print(f"{example.directory}: {result}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
