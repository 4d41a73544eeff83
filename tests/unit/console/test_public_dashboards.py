"""The queries of public dashboards and alerts for Kafka are answered by a running broker.

The names, and the labels that the queries select or group by, are those of these files, as of 2025:

- github.com/strimzi/strimzi-kafka-operator, packaging/examples/metrics: `grafana-dashboards/strimzi-kafka.json`,
  `grafana-dashboards/strimzi-kafka-exporter.json`, and the rules `prometheus-kafka-rules.yaml` and
  `prometheus-kafka-exporter-topic-rules-group.yaml`
- github.com/danielqsj/kafka_exporter: `kafka_exporter_overview.json`, and all metrics of `kafka_exporter.go` except
  for those of ZooKeeper

Two kinds of queries are left out: `jvm_*`, because there is no JVM, and those to Kubernetes (`container_*`,
`kubelet_*`). Labels of Kubernetes (`namespace`, `pod`) come from Prometheus' configuration, not from a broker.
"""

from __future__ import annotations

from pathlib import Path

from pykbroker.console.exposition import exposition
from tests.unit.apis.conftest import batch, serving
from tests.unit.console.observed import samples
from tests.unit.console.test_topics import ONE_COORDINATOR, commit, find_coordinator

TRAFFIC = "kafka_server_brokertopicmetrics_"
STRIMZI_KAFKA = {
    "kafka_server_replicamanager_leadercount": "",
    "kafka_controller_kafkacontroller_activecontrollercount": "",
    "kafka_controller_controllerstats_uncleanleaderelections_total": "",
    "kafka_server_replicamanager_partitioncount": "",
    "kafka_server_replicamanager_underreplicatedpartitions": "",
    "kafka_cluster_partition_atminisr": "topic partition",
    "kafka_cluster_partition_underminisr": "topic partition",
    "kafka_cluster_partition_replicascount": "topic partition",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "",
    "process_cpu_seconds_total": "",
    "process_open_fds": "",
    f"{TRAFFIC}bytesin_total": "topic",
    f"{TRAFFIC}bytesout_total": "topic",
    f"{TRAFFIC}messagesin_total": "topic",
    f"{TRAFFIC}totalproducerequests_total": "topic",
    f"{TRAFFIC}failedproducerequests_total": "topic",
    f"{TRAFFIC}totalfetchrequests_total": "topic",
    f"{TRAFFIC}failedfetchrequests_total": "topic",
    "kafka_network_socketserver_networkprocessoravgidle_percent": "",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": "",
    "kafka_server_kafkaserver_linux_disk_write_bytes": "",
    "kafka_server_kafkaserver_linux_disk_read_bytes": "",
    "kafka_server_socket_server_metrics_connection_count": "listener networkProcessor",
    "kafka_log_log_size": "topic partition",
}
STRIMZI_RULES = {
    "kafka_server_replicamanager_underminisrpartitioncount": "",
    "kafka_log_logmanager_offlinelogdirectorycount": "",
}
KAFKA_EXPORTER = {
    "kafka_exporter_build_info": "version",
    "kafka_brokers": "",
    "kafka_broker_info": "id address",
    "kafka_topic_partitions": "topic",
    "kafka_topic_partition_current_offset": "topic partition",
    "kafka_topic_partition_oldest_offset": "topic partition",
    "kafka_topic_partition_in_sync_replica": "topic partition",
    "kafka_topic_partition_leader": "topic partition",
    "kafka_topic_partition_leader_is_preferred": "topic partition",
    "kafka_topic_partition_replicas": "topic partition",
    "kafka_topic_partition_under_replicated_partition": "topic partition",
    "kafka_consumergroup_members": "consumergroup",
    "kafka_consumergroup_current_offset": "consumergroup topic partition",
    "kafka_consumergroup_current_offset_sum": "consumergroup topic",
    "kafka_consumergroup_lag": "consumergroup topic partition",
    "kafka_consumergroup_lag_sum": "consumergroup topic",
}


async def test_a_broker_answers_every_query_of_public_dashboards_with_the_labels_that_they_name(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),), **ONE_COORDINATOR) as local_broker:
        client = await local_broker.connect()
        await find_coordinator(client)
        await client.produce("a", batch(b"x"))
        await commit(client, "g", ("a", 0, 1))
        found = samples(b"".join(await exposition(local_broker.serving.observer)).decode())
    exported = {(name, frozenset(label for label, _ in labels)) for name, labels in found}
    asked = {**STRIMZI_KAFKA, **STRIMZI_RULES, **KAFKA_EXPORTER}
    missing = [name for name, labels in asked.items() if (name, frozenset(labels.split())) not in exported]
    assert missing == []
