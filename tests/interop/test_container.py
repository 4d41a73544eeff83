"""Tests of the image of `docker/Dockerfile` without a container engine.

The steps of the Dockerfile run in a temporary directory in place of `/`. The entry point then runs with the uid of the
image, which may read all files but write only its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
TOP_LEVEL = re.compile(r"(?<![\w.:/])/(?=(?:bitnami|etc|kafka|opt|src|tmp|usr|var)\b)")
BUILD_S_MAX = 240
SECONDS_MAX = 30
pytestmark = pytest.mark.timeout(300)  # pip resolves and installs the same packages as for a user.


class Image:
    """A directory tree made by the steps of a Dockerfile, with the image's metadata."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.env: dict[str, str] = {}
        self.user = "0:0"
        self.stop_signal = ""
        self.health: list[str] = []
        self.entry_point: list[str] = []
        self._stages: dict[str, Path] = {}
        self._stage = ""
        self._workdir = "/"

    def build(self, dockerfile: str) -> None:
        for line in dockerfile.replace("\\\n", " ").splitlines():
            name, _, rest = line.partition(" ")
            if line and not line.startswith("#"):
                getattr(self, f"do_{name.lower()}")(rest)

    def do_from(self, rest: str) -> None:
        if self._stage:
            self._stages[self._stage] = self.root.rename(self.root.with_name(self._stage))
        self._stage, self._workdir, self.env = rest.partition(" AS ")[2] or "last", "/", {}
        python = self.root / "usr/local/bin/python"
        python.parent.mkdir(parents=True)
        python.symlink_to(os.path.realpath(sys.executable))

    def do_workdir(self, rest: str) -> None:
        self._workdir = rest
        self.place(rest).mkdir(parents=True, exist_ok=True)

    def do_copy(self, rest: str) -> None:
        stage = re.match(r"--from=(\w+) ", rest)
        *sources, target = rest[stage.end() if stage else 0 :].split()
        origin = self._stages[stage[1]] if stage else ROOT
        if stage is None:
            assert all(source.partition("/")[0] in kept_by_dockerignore() for source in sources)
        for source in sources:
            to = self.place(os.path.join(self._workdir, target))
            path = origin / source.lstrip("/")
            if path.is_dir():
                shutil.copytree(path, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)

    def do_run(self, rest: str) -> None:
        command, directory = ["sh", "-ec", self.placed(rest)], self.place(self._workdir)
        subprocess.run(command, cwd=directory, env=self.environ(), check=True, timeout=BUILD_S_MAX)

    def do_env(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self.env[name] = ":".join(map(self.placed, value.removesuffix(":$PATH").split(":")))

    def do_user(self, rest: str) -> None:
        self.user = rest

    def do_volume(self, rest: str) -> None:
        assert self.place(rest).is_dir()

    def do_expose(self, rest: str) -> None:
        assert rest == "9092"

    def do_stopsignal(self, rest: str) -> None:
        self.stop_signal = rest

    def do_healthcheck(self, rest: str) -> None:
        self.health = json.loads(rest.partition("CMD ")[2])

    def do_entrypoint(self, rest: str) -> None:
        self.entry_point = [self.placed(word) for word in json.loads(rest)]

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def placed(self, text: str) -> str:
        """Return a text whose absolute paths begin at the root of the image."""
        return TOP_LEVEL.sub(f"{self.root}/", text)

    def environ(self, **more: str) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP"))}
        path = ":".join(filter(None, (self.env.get("PATH"), f"{self.root}/usr/local/bin", "/usr/bin:/bin")))
        return {**outside, "HOME": "/", **self.env, "PATH": path, **more}

    def command(self, words: list[str]) -> list[str]:
        """Return a command that runs as the user of the image."""
        uid, gid = self.user.split(":")
        capabilities = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        return ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups", *capabilities, *words]

    def output(self, *words: str) -> str:
        """Return what a container prints that runs another command than a broker."""
        command = self.command([*self.entry_point, *words])
        return subprocess.run(
            command, env=self.environ(), check=True, stdout=subprocess.PIPE, text=True, timeout=SECONDS_MAX
        ).stdout

    def is_healthy(self, **environ: str) -> bool:
        """Run the health check with the variables of the container."""
        command, environ = self.command(self.health), self.environ(**environ)
        return not subprocess.run(command, env=environ, capture_output=True, timeout=50).returncode


class Container:
    """The running entry point of an image."""

    def __init__(self, image: Image, directory: Path, environ: Mapping[str, str]) -> None:
        self.stdout, self.stderr = directory / "stdout", directory / "stderr"
        with self.stdout.open("wb") as stdout, self.stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                image.command(image.entry_point), env=image.environ(**environ), stdout=stdout, stderr=stderr
            )

    def line(self) -> str:
        """Return the line that the broker prints once it is ready."""
        deadline = time.monotonic() + SECONDS_MAX
        while not (printed := self.stdout.read_text()).endswith("\n"):
            assert self.process.poll() is None, self.stderr.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return printed


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if os.getuid() != 0:
        pytest.skip("only root can run the entry point as another user")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        image = Image(Path(directory))
        image.build(DOCKERFILE.read_text())
        yield image


@pytest.fixture
def run(image: Image, tmp_path: Path) -> Iterator[object]:
    """Yield `run(**environ)`, which starts a container. The containers are killed after the test."""
    containers = []

    def start(**environ: str) -> Container:
        containers.append(Container(image, tmp_path, environ))
        return containers[-1]

    yield start
    for container in containers:
        container.process.kill()
        container.process.wait()


def kept_by_dockerignore() -> set[str]:
    return {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}


def port_of(line):
    return int(re.findall(r"127\.0\.0\.1:(\d+)", line)[0])


def test_the_image_serves_as_its_user_and_stops_cleanly(image, run) -> None:
    container = run(
        KAFKA_LISTENERS="PLAINTEXT://127.0.0.1:0",
        KAFKA_NUM_PARTITIONS="3",
        KAFKA_HEAP_OPTS="-Xmx1g",
        CLUSTER_ID="MkU3OEVBNTcwNTJENDM2Qk",
    )
    port = port_of(line := container.line())
    assert "(cluster MkU3OEVBNTcwNTJENDM2Qk, " in line
    assert image.is_healthy(KAFKA_LISTENERS=f"PLAINTEXT://:{port}")
    admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
    admin.create_topics({"orders": {}})
    admin.close()
    arguments = f"--bootstrap-server 127.0.0.1:{port} --list"
    tools = [
        "kafka-topics",
        image.placed("/opt/kafka/bin/kafka-topics.sh"),
        image.placed("/opt/bitnami/kafka/bin/kafka-topics.sh"),
        image.placed("/kafka/bin/kafka-topics.sh"),
        image.placed("/usr/bin/kafka-topics"),
    ]
    assert image.output("sh", "-c", " && ".join(f"{tool} {arguments}" for tool in tools)) == "orders\n" * 5
    data = image.place("/var/lib/kafka/data")
    assert sorted(path.name for path in data.glob("orders-*")) == ["orders-0", "orders-1", "orders-2"]
    assert {path.stat().st_uid for path in data.iterdir()} == {int(image.user.split(":")[0])}
    assert "no use for: KAFKA_HEAP_OPTS" in container.stderr.read_text()
    container.process.send_signal(signal.Signals[image.stop_signal])
    assert container.process.wait(SECONDS_MAX) == 0
    assert (data / ".kafka_cleanshutdown").exists()
    assert not image.is_healthy(KAFKA_LISTENERS=f"PLAINTEXT://:{port}")


def test_scripts_of_tests_may_add_files_and_start_a_broker_by_kafkas_script(image) -> None:
    for script in ("kafka-server-start.sh", image.placed("/usr/bin/kafka-server-start")):
        assert "this image has no -daemon" in image.output("sh", "-c", f"{script} -daemon 2>&1 || true")
    for directory in ("/opt/kafka", "/etc/kafka", "/etc/confluent/docker"):
        script = f"{image.placed(directory)}/testcontainers_start.sh"
        assert image.output("sh", "-c", f"echo echo started >{script} && sh {script}") == "started\n"


def test_a_volume_of_another_user_is_refused_with_one_sentence(run, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    container = run(KAFKA_LISTENERS="PLAINTEXT://127.0.0.1:0", KAFKA_LOG_DIRS=str(tmp_path))
    assert container.process.wait(SECONDS_MAX) == 1
    output = container.stderr.read_text()
    assert f"the user 1000 cannot write the data directory {tmp_path}" in output
    assert "Traceback" not in output
