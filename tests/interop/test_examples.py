"""The programs of `examples/` and their output, and its files to copy.

The examples that fetch their libraries from package registries run only if `PYKBROKER_TEST_ALL_EXAMPLES` is set.
`pipeline/test_spark_example.py` runs that of Spark in the session of its tests.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tools.broker_process import PYKBROKER
from tools.examples import EXAMPLES, PROGRAMS, RUN_SECONDS_MAX, Example, ExampleFailed

ROOT = Path(__file__).parents[2]
ALL = "PYKBROKER_TEST_ALL_EXAMPLES"
RUN_HERE = [example for example in PROGRAMS if example.directory != "spark"]


@pytest.mark.timeout(3 * RUN_SECONDS_MAX + 10)  # an environment may have to be made and filled first
@pytest.mark.parametrize("example", RUN_HERE, ids=[example.directory for example in RUN_HERE])
def test_an_example_prints_the_expected_lines(request, shared_broker, example: Example):
    if example.fetches and ALL not in os.environ:
        pytest.skip(f"fetches its libraries from package registries: set {ALL}=1")
    if program := example.missing():
        pytest.skip(f"{program} is not installed")
    if "java" in example.programs:
        request.getfixturevalue("java")
    example.run(shared_broker.address)


@pytest.mark.parametrize("prints", [("hello Ada", "hello Grace"), ("hello Ada", "hello Grace", "hello Edsger", "bye")])
def test_an_example_that_prints_other_lines_fails(shared_broker, prints):
    (greet,) = (example for example in PROGRAMS if example.directory == "kafka-python")
    with pytest.raises(ExampleFailed):
        replace(greet, prints=prints).run(shared_broker.address)


def test_an_example_that_exits_with_an_error_fails(shared_broker):
    (greet,) = (example for example in PROGRAMS if example.directory == "kafka-python")
    with pytest.raises(ExampleFailed, match="exited with 2"):
        replace(greet, command="python no-such-file.py").run(shared_broker.address)


def test_the_broker_of_the_workflow_answers(tmp_path):
    workflow = (EXAMPLES / "github-actions" / "kafka.yml").read_text()
    start, wait = re.findall(r"- run: (pykbroker .*)", workflow)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environ = {**os.environ, "PYKBROKER_LISTEN": address, "PYKBROKER_BOOTSTRAP": address}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    steps = f"{start}\n{wait}\npykbroker topics list\nkill $!\nwait $!"
    done = subprocess.run(["bash", "-ec", steps], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert f"The broker on {address} answers." in done.stdout
    assert re.search(r"^orders +3 ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("file", ["compose.yaml", "docker/compose.secured.yaml"])
def test_clients_of_each_listener_in_a_compose_file_get_its_advertised_address(tmp_path, file):
    users, data = tmp_path / "users", tmp_path / "data"
    users.write_text("alice:secret\nbob:hidden\n")
    with socket.create_server(("", 0)) as first, socket.create_server(("", 0)) as second:
        containers, host = first.getsockname()[1], second.getsockname()[1]
    compose = (ROOT / file).read_text().replace("/run/secrets/users", str(users))
    compose = re.sub(r":(9092|29092)\b", lambda port: f":{host if port[1] == '9092' else containers}", compose)
    variables = dict(re.findall(r'^      ((?:KAFKA|PYKBROKER)_\w+): "?([^"\n]*)"?$', compose, re.MULTILINE))
    image = {"KAFKA_LOG_DIRS": str(data), "PYKBROKER_CONTAINER": "1"}
    environ = {**os.environ, **variables, **image}
    with (tmp_path / "log").open("w") as log:
        broker = subprocess.Popen([*PYKBROKER, "start"], env=environ, stdout=log, stderr=log)
    try:
        health = subprocess.run([*PYKBROKER, "wait"], env=environ, capture_output=True, timeout=40)
        assert health.returncode == 0, (tmp_path / "log").read_text()
        secured = of_alice(data) if "PYKBROKER_TLS" in variables else {}
        addresses = [advertised(f"localhost:{port}", secured) for port in (containers, host)]
    finally:
        broker.kill()
        broker.wait()
    assert addresses == [f"kafka:{containers}", f"localhost:{host}"]
    assert "WARNING" not in (tmp_path / "log").read_text()


def of_alice(data: Path) -> dict[str, str]:
    """Return the configs by which alice logs in to a broker with this data."""
    log_in = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "secret"}
    return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(data / "tls-ca.pem"), **log_in}


def advertised(bootstrap: str, secured: dict[str, str]) -> str:
    """Return the address that the metadata of a broker has for itself."""
    (broker,) = AdminClient({"bootstrap.servers": bootstrap, **secured}).list_topics(timeout=10).brokers.values()
    return f"{broker.host}:{broker.port}"


def test_the_unit_of_systemd_starts_a_broker(start_broker, tmp_path):
    unit, secured = ((EXAMPLES / "systemd" / name).read_text() for name in ("pykbroker.service", "secured.conf"))
    plain, _, command = (line.split() for line in re.findall(r"^ExecStart=(.*)$", unit + secured, re.MULTILINE))
    assert plain[1:] == ["start", "--listen", "127.0.0.1:9092", "--data-dir", "/var/lib/pykbroker"]
    assert command[:6] == [*plain[:3], "0.0.0.0:9092", *plain[4:]]
    users = tmp_path / "users"
    users.write_text("alice:secret\n")
    options = [word.replace("${CREDENTIALS_DIRECTORY}", str(tmp_path)) for word in command[6:]]
    assert f"@{users}" in options
    assert start_broker("--data-dir", str(tmp_path / "pykbroker"), *options).stop() == 0
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not verified")
    program = tmp_path / "bin" / "pykbroker"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    copy = tmp_path / "pykbroker.service"
    for path, text in ((copy, unit), (tmp_path / "pykbroker.service.d" / "secured.conf", secured)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("/opt/pykbroker/bin", str(program.parent)))
    verified = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, timeout=50)
    assert "pykbroker" not in verified.stderr


def test_every_directory_is_run_or_listed():
    listed = re.findall(r"^\| \[([\w-]+)\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert {example.directory for example in PROGRAMS} <= set(listed)
