"""Tests that Kafka's command line tools print the same for this broker as for Kafka.

The expected texts were printed by the tools of Kafka 4.3.1 for a Kafka 4.3.1 node with two log directories.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.group_actors import actors
from tests.interop.java_tools import TOOLS, ToolRun, filled, output_of, runner, transcript
from tests.interop.raw_client import RawClient
from tools.broker_process import BrokerProcess

CONSUMER, REASSIGN, CONFIGS = (
    f"{TOOLS}consumer.ConsoleConsumer",
    f"{TOOLS}reassign.ReassignPartitionsCommand",
    "kafka.admin.ConfigCommand",
)
RUN_SECONDS_MAX = 280

pytestmark = pytest.mark.timeout(300)


def topics(arguments: str, text: str) -> ToolRun:
    return ToolRun("TopicCommand", "--bootstrap-server {host} " + arguments, text)


def reassign(arguments: str, text: str) -> ToolRun:
    return ToolRun(REASSIGN, "--bootstrap-server {host} " + arguments, text)


FILES = {
    "records": {"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]},
    "plan": {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": index, "replicas": [1], "log_dirs": ["{two}" if index % 2 else "{one}"]}
            for index in range(4)
        ],
    },
    "away": {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [7]}]},
    "topics": {"version": 1, "topics": [{"topic": "t"}]},
}
OFFSETS = {"resets": "g,0,1\ng,1,2\n", "short": "g,0\n"}
ASSIGNED = (
    '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["{one}"]},'
    '{"topic":"t","partition":1,"replicas":[1],"log_dirs":["{two}"]},'
    '{"topic":"t","partition":2,"replicas":[1],"log_dirs":["{one}"]},'
    '{"topic":"t","partition":3,"replicas":[1],"log_dirs":["{two}"]}]}'
)
RUNS = {
    "create": topics(
        "--create --topic t --partitions 3 --replication-factor 1 --config retention.ms=3600000",
        "Created topic t.\nexit 0\n",
    ),
    "create an existing topic": topics(
        "--create --topic t --partitions 3",
        """\
Error while executing topic command : Topic 't' already exists.
exit 1
""",
    ),
    "add partitions": topics("--alter --topic t --partitions 4", "exit 0\n"),
    "remove partitions": topics(
        "--alter --topic t --partitions 2",
        """\
Error while executing topic command : The topic t currently has 4 partition(s); 2 would not be an increase.
exit 1
""",
    ),
    "list": topics("--list --exclude-internal", "g\ng2\nhang\nt\nv\nexit 0\n"),
    "describe": topics(
        "--describe --topic t",
        """\
Topic: t\tTopicId: …\tPartitionCount: 4\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=3600000
\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:\x20
\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:\x20
\tTopic: t\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:\x20
\tTopic: t\tPartition: 3\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:\x20
exit 0
""",
    ),
    "describe an unknown topic": topics(
        "--describe --topic none",
        """\
Error while executing topic command : Topic 'none' does not exist as expected
exit 1
""",
    ),
    "describe configs": ToolRun(
        CONFIGS,
        "--bootstrap-server {host} --describe --entity-type topics --entity-name t",
        """\
Dynamic configs for topic t are:
  retention.ms=3600000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=3600000}
exit 0
""",
    ),
    "produce from the console": ToolRun(
        "ConsoleProducer",
        "--bootstrap-server {host} --topic t --sync --timeout 5 "  # it lingers for a second otherwise, with each record
        "--reader-property parse.key=true --reader-property key.separator=:",
        "exit 0\n",
        "\n".join(f"k{index}:value-{index}" for index in range(20)),
    ),
    "measure the producer performance": ToolRun(
        "ProducerPerformance",
        "--bootstrap-server {host} --topic t --num-records 500 --record-size 100 --throughput -1",
        "500 records sent, …\nexit 0\n",
    ),
    "consume to the console": ToolRun(
        CONSUMER,
        "--bootstrap-server {host} --topic t --partition 2 --offset 1 --max-messages 2 --timeout-ms 60000 "
        "--formatter-property print.offset=true --formatter-property print.key=true",
        """\
Offset:1\t…
Offset:2\t…
Processed a total of 2 messages
exit 0
""",
    ),
    "delete records": ToolRun(
        "DeleteRecordsCommand",
        "--bootstrap-server {host} --offset-json-file {files}/records.json",
        """\
Executing records delete operation
Records delete operation completed:
partition: t-0\tlow_watermark: 1
exit 0
""",
    ),
    "get offsets": ToolRun(
        "GetOffsetShell",
        "--bootstrap-server {host} --topic-partitions t:0,t:1 --time earliest",
        "t:0:1\nt:1:0\nexit 0\n",
    ),
    "describe log directories": ToolRun(
        "LogDirsCommand",
        "--bootstrap-server {host} --describe --topic-list t",
        """\
Querying brokers for log directories information
Received log directory information from brokers 1
{"brokers":[{"broker":1,"logDirs":[{"partitions":[…],"error":null,"logDir":"…"},{"partitions":[…],"error":null,\
"logDir":"…"}]}],"version":1}
exit 0
""",
    ),
    "describe features": ToolRun(
        "FeatureCommand",
        "--bootstrap-server {host} describe",
        """\
Feature: eligible.leader.replicas.version          SupportedMinVersion: 0                SupportedMaxVersion: 1                FinalizedVersionLevel: 1                Epoch: …
Feature: group.version                             SupportedMinVersion: 0                SupportedMaxVersion: 1                FinalizedVersionLevel: 1                Epoch: …
Feature: kraft.version                             SupportedMinVersion: 0                SupportedMaxVersion: 1                FinalizedVersionLevel: 1                Epoch: …
Feature: metadata.version                          SupportedMinVersion: 3.3-IV3          SupportedMaxVersion: 4.3-IV0          FinalizedVersionLevel: 4.3-IV0          Epoch: …
Feature: transaction.version                       SupportedMinVersion: 0                SupportedMaxVersion: 2                FinalizedVersionLevel: 2                Epoch: …
exit 0
""",  # noqa: E501
    ),
    "describe the quorum": ToolRun(
        "MetadataQuorumCommand",
        "--bootstrap-server {host} describe --status",
        """\
ClusterId:              …
LeaderId:               1
LeaderEpoch:            1
HighWatermark:          …
MaxFollowerLag:         0
MaxFollowerLagTimeMs:   0
CurrentVoters:          [{"id": 1, "directoryId": "…", "endpoints": ["PLAINTEXT://{host}"]}]
CurrentObservers:       []
exit 0
""",
    ),
    "describe the replicas of the quorum": ToolRun(
        "MetadataQuorumCommand",
        "--bootstrap-server {host} describe --replication",
        """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus\t
1     \t…\t…\t0  \t…\t…\tLeader\t
exit 0
""",
    ),
    "describe the versions of APIs": ToolRun(
        "BrokerApiVersionsCommand",
        "--bootstrap-server {host}",
        """\
{host} (id: 1 rack: null isFenced: false) -> (
\tProduce(0): 0 to 13 [usable: 13],
\tFetch(1): 4 to 18 [usable: 18],
…
)
exit 0
""",
    ),
    "describe the cluster id": ToolRun(
        "ClusterTool", "cluster-id --bootstrap-server {host}", "Cluster ID: …\nexit 0\n"
    ),
    "list endpoints": ToolRun(
        "ClusterTool",
        "list-endpoints --bootstrap-server {host}",
        """\
ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE\x20\x20
1          127.0.0.1 …      null       unfenced   broker         \n\
exit 0
""",
    ),
    "elect leaders of all partitions": ToolRun(
        "LeaderElectionCommand",
        "--bootstrap-server {host} --election-type preferred --all-topic-partitions",
        "exit 0\n",
    ),
    "elect a leader": ToolRun(
        "LeaderElectionCommand",
        "--bootstrap-server {host} --election-type unclean --topic t --partition 0",
        """\
Valid replica already elected for partitions t-0
exit 0
""",
    ),
    "elect a leader of an unknown partition": ToolRun(
        "LeaderElectionCommand",
        "--bootstrap-server {host} --election-type preferred --topic none --partition 0",
        """\
Error completing leader election (PREFERRED) for partition: none-0: …: No such topic as none
1 replica(s) could not be elected
…AdminCommandFailedException: 1 replica(s) could not be elected
exit 1
""",
    ),
    "reassign": reassign(
        "--execute --reassignment-json-file {files}/plan.json",
        """\
Current partition replica assignment

{"version":1,"partitions":[…]}

Save this to use as the --reassignment-json-file option during rollback
Successfully started partition reassignments for t-0,t-1,t-2,t-3
Successfully started moving log directory to {one} for replica t-0 with broker 1\x20
Successfully started moving log directory to {two} for replica t-1 with broker 1\x20
Successfully started moving log directory to {one} for replica t-2 with broker 1\x20
Successfully started moving log directory to {two} for replica t-3 with broker 1\x20
exit 0
""",
    ),
    "list reassignments": reassign("--list", "No partition reassignments found.\nexit 0\n"),
    "reassign to an unknown broker": reassign(
        "--execute --additional --reassignment-json-file {files}/away.json",
        """\
Error: Unknown broker id 7
…AdminCommandFailedException: Unknown broker id 7
exit 1
""",
    ),
    "propose a reassignment": reassign(
        "--generate --broker-list 1 --topics-to-move-json-file {files}/topics.json",
        f"""\
Current partition replica assignment
{ASSIGNED}

Proposed partition reassignment configuration
{{"version":1,"partitions":[…]}}
exit 0
""",
    ),
    "verify a reassignment": reassign(
        "--verify --reassignment-json-file {files}/plan.json",
        """\
Status of partition reassignment:
Reassignment of partition t-0 is completed.
Reassignment of partition t-1 is completed.
Reassignment of partition t-2 is completed.
Reassignment of partition t-3 is completed.
Reassignment of replica t-0-1 completed successfully.
Reassignment of replica t-1-1 completed successfully.
Reassignment of replica t-2-1 completed successfully.
Reassignment of replica t-3-1 completed successfully.
Clearing broker-level throttles on broker 1
Clearing topic-level throttles on topic t
exit 0
""",
    ),
    "cancel a reassignment": reassign(
        "--cancel --reassignment-json-file {files}/plan.json",
        """\
None of the specified partition reassignments are active.
None of the specified partition moves are active.Clearing broker-level throttles on broker 1
Clearing topic-level throttles on topic t
exit 0
""",
    ),
    "alter configs": ToolRun(
        CONFIGS,
        "--bootstrap-server {host} --alter --entity-type topics --entity-name t "
        "--add-config retention.ms=1000,cleanup.policy=[compact,delete]",
        """\
Completed updating config for topic t.
exit 0
""",
    ),
    "describe altered configs": ToolRun(
        CONFIGS,
        "--bootstrap-server {host} --describe --entity-type topics --entity-name t",
        """\
Dynamic configs for topic t are:
  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, \
DEFAULT_CONFIG:log.cleanup.policy=delete}
  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}
exit 0
""",
    ),
    "dump a log": ToolRun(
        "DumpLogSegments",
        "--files {one}/t-2/00000000000000000000.log",
        """\
Dumping {one}/t-2/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 0 count: 1 … isvalid: true
…
exit 0
""",
    ),
    "dump the metadata": ToolRun(
        "DumpLogSegments",
        "--cluster-metadata-decoder --skip-record-metadata --files {one}/__cluster_metadata-0/00000000000000000000.log",
        """\
Dumping {one}/__cluster_metadata-0/00000000000000000000.log
Log starting offset: 0
…
| payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"t","topicId":"…"}}
…
exit 0
""",
    ),
    "delete": topics("--delete --topic t", "exit 0\n"),
    **transcript(Path(__file__).with_name("group_tools.txt")),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Yield the values of the placeholders for a running broker."""
    home = tmp_path_factory.mktemp("tools")
    one, two, files = home / "one", home / "two", home / "files"
    files.mkdir()
    broker = BrokerProcess(home, "--set", f"log.dirs={one},{two}")
    broker.start()
    with actors(broker.address) as known:
        yield {"host": broker.address, "one": str(one), "two": str(two), "files": str(files), **known}
    broker.kill()


@pytest.fixture(scope="module")
def output(java: str, kafka_jars: Path, places: Mapping[str, str]) -> Mapping[str, str]:
    """Return the output of each tool, in the order of RUNS."""
    files = Path(places["files"])
    commands = files / "commands"
    commands.mkdir()
    for name, content in FILES.items():
        (files / f"{name}.json").write_text(filled(json.dumps(content), places))
    for name, text in OFFSETS.items():
        (files / f"{name}.csv").write_text(text)
    for number, one in enumerate(RUNS.values()):
        tool = one.tool if "." in one.tool else TOOLS + one.tool
        lines = [tool, *filled(one.arguments, places).split(), *(["<", one.reads] if one.reads else [])]
        (commands / f"{number:03}").write_text("\n".join(lines))
    command = runner(java, kafka_jars, str(commands))
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX)
    assert run.returncode == 0, run.stdout + run.stderr
    return {name: output_of(commands / f"{number:03}") for number, name in enumerate(RUNS)}


@pytest.mark.parametrize("name", RUNS)
def test_kafkas_tool_prints_the_expected_output(
    output: Mapping[str, str], places: Mapping[str, str], name: str
) -> None:
    expected = RUNS[name]
    assert expected.agrees(places, output[name]), f"{output[name]}\ninstead of\n{filled(expected.text, places)}"


def test_the_verifiable_producer_sends_its_records(output: Mapping[str, str], places: Mapping[str, str]) -> None:
    """The producer stops together with the JVM, so it prints no summary."""
    with RawClient(places["host"]) as client:
        values = [bytes(record.value or b"") for index in range(2) for record in client.read("v", index)]
    assert sorted(values) == [b"7.0", b"7.1", b"7.2"]
