"""Listeners with TLS and SASL, and the authorizer. The certificate has a key on P-256, and clients speak TLS 1.3."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tools.bench import frames, load, volume
from tools.bench.child import Child
from tools.bench.peers import REPOSITORY, START_TIMEOUT_S, Broker, free_port
from tools.bench.row import CpuClock, Figure, Row, Stage, Topic
from tools.bench.secured import SecurityStage, add_user, port_of, secured
from tools.bench.secured_callers import PASSWORD, USER, SecuredCaller, Security, paced, visits
from tools.broker_process import PYKBROKER
from wire.frame import encode_request
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

PLAIN_TEXT = Security()
TLS = Security(tls=True)
SCRAM = Security(mechanism="SCRAM-SHA-256")
TLS_SCRAM = Security(tls=True, mechanism="SCRAM-SHA-256")
VALUE = bytes(100)
CONNECTIONS, IN_FLIGHT = 10, 5
VOLUME_COUNT, VOLUME_BYTES = 300_000, 1024
VISITS_S, VISITS_OPEN_MAX = 3, 10
EARLIER_CONNECTIONS, IDLE_CONNECTIONS = 200, 2_000
HALF_OPEN_CONNECTIONS, HALF_OPEN_S = 10_000, 13
"""The connections that stop in the middle of a log-in, and the time in seconds after which none is left of ours."""
FAILING_RATE = 1_000
OTHERS_RATE, OTHERS_S = 200, 5
FAILING_BEFORE_S = 1.5
"""The time from the first failing log-in to the first request of another client."""


def drive(broker: Broker, security: Security, topic: Topic, requests: Sequence[bytes], in_flight: int) -> load.Load:
    """Send small requests through the listener that `security` reaches."""
    port = port_of(broker, security)
    connect = partial(SecuredCaller, security=security)
    return load.drive([port] * len(requests), requests, in_flight=in_flight, connect=connect)


def small_requests(broker: Broker, security: Security, *, produces: bool) -> tuple[float, float]:
    """Return the requests per second of ten connections, and the broker's CPU seconds for each."""
    with Topic(broker) as topic:
        records = frames.batch(VALUE)
        if produces:
            requests = [frames.produce(topic.name, index % topic.partitions, records) for index in range(CONNECTIONS)]
        else:
            requests = [frames.metadata([topic.name])] * CONNECTIONS
        cpu = CpuClock(broker)
        run = drive(broker, security, topic, requests, IN_FLIGHT if produces else 1)
        return run.rate, cpu.seconds() / run.requests


def produce(stage: Stage) -> Mapping[str, float]:
    """Produce one record a request over TLS, and in plain text through the same broker."""
    plain_rate, plain_cpu = small_requests(stage.broker, PLAIN_TEXT, produces=True)
    rate, cpu = small_requests(stage.broker, TLS, produces=True)
    return {"rate": rate, "cpu": cpu * 1e6, "of_plain": rate / plain_rate, "cpu_of_plain": cpu / plain_cpu}


def client_options(broker: Broker) -> Mapping[str, str]:
    """Return the options of librdkafka for the listener with TLS."""
    return {
        "bootstrap.servers": f"127.0.0.1:{port_of(broker, TLS)}",
        "security.protocol": "SSL",
        "enable.ssl.certificate.verification": "false",
    }


def bulk_produce(stage: Stage) -> Mapping[str, float]:
    """Produce through librdkafka over TLS."""
    with Topic(stage.broker) as topic:
        cpu, options = CpuClock(stage.broker), client_options(stage.broker)
        seconds = volume.produce(stage.broker, topic, VOLUME_COUNT, bytes(VOLUME_BYTES), options=options)
        return volume_figures(seconds, cpu.seconds())


def bulk_consume(stage: Stage) -> Mapping[str, float]:
    """Consume through librdkafka over TLS."""
    with Topic(stage.broker) as topic:
        volume.produce(stage.broker, topic, VOLUME_COUNT, bytes(VOLUME_BYTES))
        cpu = CpuClock(stage.broker)
        seconds = volume.consume(stage.broker, topic, VOLUME_COUNT, client_options(stage.broker))
        return volume_figures(seconds, cpu.seconds())


def volume_figures(seconds: float, cpu_seconds: float) -> Mapping[str, float]:
    """Return the figures of a row of volume."""
    return {"bytes": VOLUME_COUNT * VOLUME_BYTES / seconds / 1e6, "cpu": cpu_seconds / VOLUME_COUNT * 1e6}


def connects(stage: Stage, security: Security) -> Mapping[str, float]:
    """Connect, send one request and close, with ten connections open at a time."""
    cpu = CpuClock(stage.broker)
    port = port_of(stage.broker, security)
    made = visits(port, security, frames.metadata(), seconds=VISITS_S, open_max=VISITS_OPEN_MAX)
    if made.refused:
        raise RuntimeError(f"{made.refused} connections were refused")
    return {"rate": made.served / made.seconds, "cpu": cpu.seconds() / made.served * 1e3}


def idle_connections(stage: Stage) -> Mapping[str, float]:
    """Measure the memory per connection of `IDLE_CONNECTIONS` connections with TLS after one request each.

    The broker is a new one, whose process has no freed memory that connections could reuse.
    """
    broker = secured(stage.peer, authorizes=False).start(stage.directory())
    try:
        with contextlib.ExitStack() as opened:
            port = port_of(broker, TLS)

            def open_connections(count: int) -> None:
                for _ in range(count):
                    opened.enter_context(SecuredCaller(port, TLS)).call(frames.metadata())

            open_connections(EARLIER_CONNECTIONS)
            before = broker.child.memory_bytes()
            open_connections(IDLE_CONNECTIONS)
            time.sleep(1)
            return {"memory": max(0.0, (broker.child.memory_bytes() - before) / IDLE_CONNECTIONS / 1024)}
    finally:
        broker.stop()


def with_acls(stage: Stage, *, produces: bool) -> Mapping[str, float]:
    """Send small requests to the broker with 10,000 ACLs, and to the one without an authorizer."""
    assert isinstance(stage, SecurityStage)
    rate, cpu = small_requests(stage.guarded, SCRAM, produces=produces)
    open_rate, open_cpu = small_requests(stage.broker, SCRAM, produces=produces)
    return {"rate": rate, "cpu": cpu * 1e6, "of_open": rate / open_rate, "cpu_of_open": cpu / open_cpu}


def failing(stage: Stage, *, tls: bool) -> Mapping[str, float]:
    """Measure another client, which has logged in, while `FAILING_RATE` connections a second fail to log in."""
    security = TLS_SCRAM if tls else SCRAM
    port = port_of(stage.broker, security)
    with Topic(stage.broker) as topic, SecuredCaller(port, security) as caller:
        request = frames.produce(topic.name, 0, frames.batch(VALUE))
        normal = paced(caller, request, rate=OTHERS_RATE, seconds=OTHERS_S)
        seconds = FAILING_BEFORE_S + OTHERS_S + 1
        command = [sys.executable, "-m", "tools.bench.failing_logins", str(port), str(FAILING_RATE), str(seconds)]
        strangers = subprocess.Popen(command + ["--tls"] * tls, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        time.sleep(FAILING_BEFORE_S)
        cpu = CpuClock(stage.broker)
        crowded = paced(caller, request, rate=OTHERS_RATE, seconds=OTHERS_S)
        cpu_seconds = cpu.seconds()
        rate = float(strangers.communicate()[0])
    normal_ms, crowded_ms = load.percentile(normal, 0.99) * 1e3, load.percentile(crowded, 0.99) * 1e3
    return {
        "rate": rate,
        "normal": normal_ms,
        "crowded": crowded_ms,
        "times": crowded_ms / normal_ms,
        "cpu": cpu_seconds / OTHERS_S * 100,
    }


def half_open(stage: Stage) -> Mapping[str, float]:
    """Open `HALF_OPEN_CONNECTIONS` that send the first message of SCRAM and no other, and measure another client."""
    begin = encode_request(SaslHandshakeRequest("SCRAM-SHA-256"), 1, 1, "bench")
    begin += encode_request(SaslAuthenticateRequest(f"n,,n={USER},r=nonce".encode()), 2, 2, "bench")
    allow_files(HALF_OPEN_CONNECTIONS + 1_000)
    broker = secured(stage.peer, authorizes=False).start(stage.directory())
    try:
        add_user(broker)
        port = port_of(broker, SCRAM)
        with contextlib.ExitStack() as opened, SecuredCaller(port, SCRAM) as caller:
            before = broker.child.memory_bytes()
            for _ in range(HALF_OPEN_CONNECTIONS):
                one = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
                one.sendall(begin)
            times = paced(caller, frames.metadata(), rate=OTHERS_RATE, seconds=HALF_OPEN_S)
            memory = broker.child.memory_bytes() - before
    finally:
        broker.stop()
    return {"memory": memory / HALF_OPEN_CONNECTIONS / 1024, "others": load.percentile(times, 0.99) * 1e3}


def allow_files(count: int) -> None:
    """Let this process open as many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))


def start(stage: Stage) -> Mapping[str, float] | None:
    """Measure the first and the second start of `--tls auto --user`, until a client has logged in and is answered."""
    if stage.peer.name != "pykbroker":
        return None
    directory = stage.directory()
    directory.mkdir()
    return {"first": start_once(directory), "second": start_once(directory)}


def start_once(directory: Path) -> float:
    """Start and stop a broker, and return the seconds until its first answer."""
    port = free_port()
    options = ["--listen", f"127.0.0.1:{port}", "--data-dir", str(directory / "data"), "--tls", "auto"]
    begun = time.monotonic()
    child = Child([*PYKBROKER, "start", *options, "--user", f"{USER}:{PASSWORD}"], directory / "output.log")
    try:
        while time.monotonic() - begun < START_TIMEOUT_S:
            try:
                with SecuredCaller(port, TLS_SCRAM) as caller:
                    while not frames.broker_count(caller.call(frames.metadata())):
                        time.sleep(0.001)
                    return time.monotonic() - begun
            except OSError:
                time.sleep(0.001)
        raise RuntimeError(f"the broker did not serve:\n{child.tail()}")
    finally:
        child.stop()


SMALL = {"rate": Figure("req/s", True, 0), "cpu": Figure("broker CPU us/req", digits=1)}
BULK = {"bytes": Figure("MB/s", True, 0), "cpu": Figure("broker CPU s/M msg", digits=3)}
CONNECTS = {"rate": Figure("connections/s", True, 0), "cpu": Figure("broker CPU ms each")}
WITH_ACLS = SMALL | {
    "of_open": Figure("rate over that without ACLs", True),
    "cpu_of_open": Figure("CPU over that without ACLs"),
}
FAILING = {
    "rate": Figure("failed/s", True, 0),
    "normal": Figure("p99 ms of others, without"),
    "crowded": Figure("p99 ms of others"),
    "times": Figure("p99 of others, times"),
    "cpu": Figure("broker CPU %", digits=0),
}
ROWS = (
    Row(
        "security: one-record Produce over TLS, 10 connections x 5",
        SMALL | {"of_plain": Figure("rate over plain text", True), "cpu_of_plain": Figure("CPU over plain text")},
        produce,
    ),
    Row("security: produce 1 KiB over TLS", BULK, bulk_produce),
    Row("security: consume 1 KiB over TLS", BULK, bulk_consume),
    Row("security: connect by TLS, one request", CONNECTS, partial(connects, security=TLS)),
    Row("security: connect by TLS and SCRAM-SHA-256, one request", CONNECTS, partial(connects, security=TLS_SCRAM)),
    Row("security: 10,000 ACLs, one-record Produce", WITH_ACLS, partial(with_acls, produces=True)),
    Row("security: 10,000 ACLs, Metadata", WITH_ACLS, partial(with_acls, produces=False)),
    Row("security: 1,000 failing log-ins a second", FAILING, partial(failing, tls=False)),
    Row("security: 1,000 failing log-ins a second over TLS", FAILING, partial(failing, tls=True)),
    Row("security: start --tls auto --user", {"first": Figure("s, first"), "second": Figure("s, second")}, start),
    Row(
        "security: 2,000 idle connections with TLS",
        {"memory": Figure("KiB each", digits=1)},
        idle_connections,
        noisy=False,
    ),
    Row(
        "security: 10,000 connections in the middle of a log-in",
        {"memory": Figure("KiB each", digits=1), "others": Figure("ms, p99 of another client", digits=1)},
        half_open,
    ),
)
