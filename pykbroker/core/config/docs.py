"""A description of each config in one or two sentences. The module is large, so callers import it only when needed."""

from __future__ import annotations

from pykbroker.core.config.table import GROUP_SYNONYMS, TOPIC_SYNONYMS, base_of

# fmt: off
USED = {
    # The node and its listeners
    "advertised.listeners":
        "The addresses that clients connect to, per listener; unset means those of `listeners`.",
    "broker.id": "The older name of `node.id`; where both are set they must be equal.",
    "broker.rack":
        "The rack or availability zone of this broker; clients see it, and replicas of a partition are spread over "
        "racks.",
    "config.providers":
        "The names of the config providers that replace variables such as ${name:path:key} in values of configs.",
    "connection.failed.authentication.delay.ms":
        "How many ms a client that failed to log in by SASL waits for the response; nothing is read from it meanwhile.",
    "connections.max.reauth.ms":
        "How many ms after its log-in by SASL a client must log in again; 0 means never. A listener and a mechanism "
        "may have their own value.",
    "connections.max.idle.ms": "A connection without a request or response for this many ms is closed.",
    "broker.heartbeat.interval.ms": "A broker sends a heartbeat to the controller every so many ms.",
    "controller.listener.names":
        "Names of the controller's listeners, which serve other brokers; clients cannot connect to them.",
    "controller.quorum.bootstrap.servers":
        "The addresses, as HOST:PORT, at which a node that is only a broker finds the controller.",
    "controller.quorum.voters":
        "The controller as ID@HOST:PORT. A node that is only a broker uses it without "
        "`controller.quorum.bootstrap.servers`.",
    "process.roles":
        "The roles of the node: `broker,controller`, or `broker` if the controller is another node.",
    "early.start.listeners":
        "Listeners that Kafka opens before the ACLs are loaded; only the names are checked: every listener waits.",
    "fetch.max.bytes":
        "The largest fetch response in bytes, whatever its client allows; a first batch that is larger is still sent.",
    "inter.broker.listener.name":
        "The listener that other brokers connect to; where there are several listeners, the broker's own limits on "
        "connections do not apply to it.",
    "listener.security.protocol.map":
        "The security protocol of each listener, as NAME:PROTOCOL pairs: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    "listeners":
        "The addresses at which the broker accepts connections, as NAME://host:port; no host means all addresses, "
        "port 0 any free one.",
    "max.connection.creation.rate": "How many new connections per second are accepted; further ones wait.",
    "max.connections": "How many connections may be open at once; a further one waits until another is closed.",
    "max.connections.per.ip":
        "How many connections one address may have open; further ones are closed at once. 0 requires exceptions in "
        "max.connections.per.ip.overrides.",
    "max.connections.per.ip.overrides":
        "Connection limits of single addresses or hosts, as address:count or name:count pairs.",
    "max.incremental.fetch.session.cache.slots":
        "How many fetch sessions are kept at once; 0 means none, so that each fetch names all its partitions.",
    "max.request.partition.size.limit":
        "The most partitions in one response of DescribeTopicPartitions; its client requests the rest separately.",
    "node.id": "The id of this node, unique in the cluster and unchanged over restarts.",
    "queued.max.request.bytes":
        "How many bytes of requests may be queued or in progress before the broker stops reading from connections. "
        "-1 means no limit of its own.",
    "queued.max.requests":
        "How many requests may be queued or in progress at once before the broker stops reading from connections.",
    "sasl.enabled.mechanisms":
        "The SASL mechanisms that clients may use, of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; a listener may have a "
        "list of its own.",
    "sasl.jaas.config":
        "The login module of `listener.name.<listener>.<mechanism>.sasl.jaas.config`, with the users of PLAIN, and the "
        "`username` and `password` of this node.",
    "sasl.mechanism.controller.protocol":
        "The SASL mechanism with which this node logs in at controllers, if their listener has SASL.",
    "sasl.mechanism.inter.broker.protocol":
        "The SASL mechanism with which this broker logs in at others, if the inter-broker listener has SASL.",
    "sasl.server.max.receive.size": "The most bytes of one request of a client before it has logged in by SASL.",
    "security.inter.broker.protocol":
        "The name of the listener that other brokers connect to, where `inter.broker.listener.name` is unset.",
    "request.timeout.ms": "How many ms another broker has to respond to a request of this one.",
    "socket.connection.setup.timeout.max.ms":
        "The largest value that `socket.connection.setup.timeout.ms` grows to after repeated failures.",
    "socket.connection.setup.timeout.ms":
        "How long the broker waits for another node to accept its connection, in ms; it doubles at each failure.",
    "socket.listen.backlog.size":
        "How many connections may wait in the kernel to be accepted; the kernel's own limit holds as well.",
    "socket.receive.buffer.bytes":
        "Bytes of a connection's receive buffer in the kernel; -1 leaves it to the operating system.",
    "socket.request.max.bytes": "The largest request in bytes; a connection that announces a larger one is closed.",
    "socket.send.buffer.bytes":
        "Bytes of a connection's send buffer in the kernel; -1 leaves it to the operating system.",

    # Topics and their logs, by the names of topic configs; broker configs with other names follow from these
    "cleanup.policy":
        "The handling of old records: delete drops whole segments, compact keeps each key's newest value; both may "
        "be given.",
    "compression.gzip.level":
        "The gzip level when the broker compresses: 1 is fastest, 9 smallest, -1 the library's default.",
    "compression.lz4.level": "The lz4 level when the broker compresses: 1 is fastest, 17 smallest.",
    "compression.type":
        "The codec in which batches are stored; producer keeps that of the producer, uncompressed stores them "
        "uncompressed.",
    "compression.zstd.level": "The zstd level when the broker compresses: 22 is smallest, negative levels are fastest.",
    "delete.retention.ms": "How many ms compaction keeps a tombstone, so that consumers see the deletion.",
    "file.delete.delay.ms":
        "How many ms the files of a deleted segment remain on disk under another name before they are removed.",
    "flush.messages":
        "A log is flushed to disk when it has this many unflushed records; the default leaves flushing to the "
        "operating system.",
    "flush.ms":
        "A log is flushed to disk when it has had unflushed records for this many ms; the default leaves flushing "
        "to the operating system.",
    "follower.replication.throttled.replicas":
        "The replicas of a topic whose replication is throttled at followers, as partition:broker pairs; * means all.",
    "index.interval.bytes": "How many bytes of records lie between two entries of the offset index and the time index.",
    "internal.segment.bytes": "The segment size in bytes for tests that need one smaller than `segment.bytes` allows.",
    "leader.replication.throttled.replicas":
        "The replicas of a topic whose replication is throttled at leaders, as partition:broker pairs; * means all.",
    "max.compaction.lag.ms": "A record is compacted after at most this many ms, however little of the log is dirty.",
    "max.message.bytes": "The largest batch in bytes, as sent by its producer, that the broker accepts.",
    "message.timestamp.after.max.ms":
        "How many ms a record's timestamp may be ahead of the broker's clock; not checked with LogAppendTime.",
    "message.timestamp.before.max.ms":
        "How many ms a record's timestamp may be behind the broker's clock; not checked with LogAppendTime.",
    "message.timestamp.type":
        "The timestamp of a record: CreateTime is the time set by its producer, LogAppendTime the time of the append.",
    "min.cleanable.dirty.ratio":
        "A log is compacted when at least this share of it, from 0 to 1, was written since the last compaction.",
    "min.compaction.lag.ms": "A record is not compacted for this many ms after it was written.",
    "min.insync.replicas":
        "How many replicas must be in sync for a write with acks=all; with fewer, the write is refused.",
    "retention.bytes":
        "The oldest segments are deleted while the partition has at least this many bytes without them; -1 means no "
        "limit.",
    "retention.ms": "A segment is deleted when its newest record is older than this many ms; -1 means no limit by age.",
    "segment.bytes": "A new segment is started when the current one would exceed this many bytes.",
    "segment.index.bytes": "The largest index of a segment in bytes; a full index starts a new segment.",
    "segment.jitter.ms":
        "A random time of up to this many ms is subtracted from `segment.ms`, so that not all partitions roll at once.",
    "segment.ms": "A new segment is started when the current one's records span this many ms, even if it is not full.",
    "unclean.leader.election.enable":
        "Whether a replica that is not in sync may become leader if no other is alive, which loses acknowledged "
        "records.",

    # Topics and their logs, for the whole broker
    "alter.log.dirs.replication.quota.window.num":
        "Over how many windows the rate of copies between log directories is averaged.",
    "alter.log.dirs.replication.quota.window.size.seconds":
        "How long each window is that measures copies between log directories, in s.",
    "auto.create.topics.enable": "Whether a topic that a client requests, and that does not exist, is created.",
    "default.replication.factor":
        "How many replicas a partition has if the request to create the topic does not specify it.",
    "delete.topic.enable": "Whether topics may be deleted; if not, such requests are refused.",
    "log.cleaner.backoff.ms": "How many ms the cleaner waits if no log needs compaction.",
    "log.cleaner.dedupe.buffer.size":
        "Memory in bytes for the keys of one compaction pass; more keys need more passes.",
    "log.cleaner.enable": "Whether logs are compacted; if not, topics with the policy compact grow without bound.",
    "log.cleaner.io.buffer.load.factor": "The share of the memory for keys that is filled, from 0 to 1.",
    "log.cleaner.io.max.bytes.per.second":
        "How many bytes per second compaction reads and writes, which leaves the rest of the disk's throughput to "
        "clients.",
    "cordoned.log.dirs":
        "The log directories that receive no new partitions; * means all. It takes effect from metadata.version "
        "4.3-IV0 on.",
    "log.dir.failure.timeout.ms":
        "A broker stops if it cannot report a failed log directory to the controller within this many ms.",
    "log.dir": "The log directory, or several separated by commas; ignored if `log.dirs` is set.",
    "log.dirs": "The log directories over which partitions are spread; if unset, `log.dir` is used.",
    "log.flush.scheduler.interval.ms": "How often the broker checks for logs that are due for a flush, in ms.",
    "log.retention.check.interval.ms": "How often the broker checks for segments that retention deletes, in ms.",
    "log.retention.hours":
        "The `retention.ms` in hours of topics that set none; -1 means no limit. Minutes and ms take precedence.",
    "log.retention.minutes":
        "The `retention.ms` in minutes of topics that set none; -1 means no limit. `log.retention.ms` takes "
        "precedence.",
    "log.roll.hours": "The `segment.ms` in hours of topics that set none; `log.roll.ms` takes precedence.",
    "log.roll.jitter.hours":
        "The `segment.jitter.ms` in hours of topics that set none; `log.roll.jitter.ms` takes precedence.",
    "num.partitions": "How many partitions a topic has if the request to create it does not specify it.",
    "num.replica.fetchers": "How many connections this broker has to each leader that it follows.",
    "producer.id.expiration.ms":
        "A partition forgets an idempotent producer and its sequence after this many ms without a write.",
    "follower.replication.throttled.rate":
        "How many bytes per second throttled replicas of this broker may fetch. Only a dynamic value counts.",
    "leader.replication.throttled.rate":
        "How many bytes per second this broker may send to throttled replicas. Only a dynamic value counts.",
    "replica.alter.log.dirs.io.max.bytes.per.second":
        "How many bytes per second may be copied between log directories. Only a dynamic value counts.",
    "replica.fetch.backoff.ms": "How long a follower waits after a failed fetch of a partition, in ms.",
    "replica.fetch.max.bytes": "How many bytes of one partition a follower fetches at once.",
    "replica.fetch.min.bytes": "How many bytes must be available before a follower's fetch is answered early.",
    "replica.fetch.response.max.bytes": "How many bytes of all partitions a follower fetches at once.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch may wait for records, in ms.",
    "replica.high.watermark.checkpoint.interval.ms": "How often the high watermarks are written to disk, in ms.",
    "replica.lag.time.max.ms": "After how many ms without catching up a follower is no longer in sync.",
    "replica.selector.class":
        "How a replica is chosen for a consumer to read from. Only Kafka's RackAwareReplicaSelector is known.",
    "replica.socket.receive.buffer.bytes":
        "Bytes of the kernel's receive buffer of a follower's connection to its leader; -1 leaves it to the operating "
        "system.",
    "replica.socket.timeout.ms": "How long a follower waits for the response of its leader, in ms.",
    "replication.quota.window.num": "Over how many windows the rate of throttled replication is averaged.",
    "replication.quota.window.size.seconds":
        "How long each window is that measures throttled replication, in s.",

    # Brokers and leaders, as the controller sees them
    "auto.leader.rebalance.enable": "Whether leadership returns to preferred replicas automatically.",
    "controlled.shutdown.enable":
        "Whether a broker hands over its leaderships before it stops; if not, they move once the controller fences it.",
    "controller.quorum.fetch.max.bytes":
        "How many bytes of metadata records one fetch of a broker asks for; a controller sends at most 8 MiB.",
    "controller.quorum.fetch.snapshot.max.bytes":
        "How many bytes of a metadata snapshot one fetch of a broker asks for; a controller sends at most 8 MiB.",
    "controller.quorum.request.timeout.ms":
        "How long a broker that fetches metadata waits for the controller's response, in ms.",
    "controller.quorum.retry.backoff.ms":
        "How many ms pass before a broker repeats a fetch of metadata that failed.",
    "controller.socket.timeout.ms":
        "How long a broker waits for the controller's response, in ms; it then looks for the controller and sends the "
        "request again.",
    "initial.broker.registration.timeout.ms":
        "After how many ms a broker that no controller registers stops, or a new node that finds no controller.",
    "broker.session.timeout.ms":
        "After this many ms without a heartbeat the controller fences a broker. A broker whose process has ended is "
        "fenced sooner.",
    "leader.imbalance.check.interval.seconds":
        "How often the controller elects preferred replicas that do not lead, in s.",
    "unclean.leader.election.interval.ms":
        "How often the controller looks for partitions that an unclean election would help, in ms.",

    # The metadata log
    "internal.metadata.log.segment.bytes":
        "The metadata segment size in bytes for tests that need one smaller than `metadata.log.segment.bytes` allows.",
    "metadata.log.max.record.bytes.between.snapshots":
        "A snapshot is taken after this many bytes of new metadata records.",
    "metadata.log.max.snapshot.interval.ms":
        "A snapshot is taken after this many ms if there are new metadata records; 0 means never by time.",
    "metadata.log.segment.bytes":
        "A new segment of the metadata log is started when the current one would exceed this many bytes.",
    "metadata.log.segment.ms": "A new segment of the metadata log is started after this many ms.",
    "metadata.max.retention.bytes":
        "Old segments and snapshots of the metadata log are deleted while they exceed this many bytes; -1 means no "
        "limit.",
    "metadata.max.retention.ms":
        "Metadata older than this many ms may be deleted if a snapshot contains it; -1 means no limit.",

    # Groups and their offsets
    "consumer.heartbeat.interval.ms": "The heartbeat interval in ms that the group's members are given.",
    "consumer.session.timeout.ms": "A member is removed from the group after this many ms without a heartbeat.",
    "group.consumer.assignors":
        "The server-side assignors of the consumer protocol, uniform and range; the first is the default.",
    "group.consumer.heartbeat.interval.ms":
        "The heartbeat interval in ms that members of a group of the consumer protocol are given.",
    "group.consumer.max.heartbeat.interval.ms":
        "The most that a group may set its `consumer.heartbeat.interval.ms` to.",
    "group.consumer.max.session.timeout.ms": "The most that a group may set its `consumer.session.timeout.ms` to.",
    "group.consumer.min.heartbeat.interval.ms":
        "The least that a group may set its `consumer.heartbeat.interval.ms` to.",
    "group.consumer.min.session.timeout.ms": "The least that a group may set its `consumer.session.timeout.ms` to.",
    "group.consumer.regex.refresh.interval.ms":
        "How often the topics that a group's regular expressions match are authorized anew, in ms.",
    "group.consumer.max.size":
        "How many members a group of the consumer protocol may have; further members are refused.",
    "group.consumer.migration.policy":
        "Which groups may change their protocol while they have members: from classic (UPGRADE), back to it "
        "(DOWNGRADE), both, or none.",
    "group.consumer.session.timeout.ms":
        "A member of the consumer protocol is removed from its group after this many ms without a heartbeat.",
    "group.coordinator.rebalance.protocols":
        "The group protocols that the broker supports, such as classic and consumer.",
    "group.initial.rebalance.delay.ms":
        "How many ms an empty classic group waits for more members before its first rebalance completes.",
    "group.max.session.timeout.ms": "The longest session in ms that a member of a classic group may ask for.",
    "group.max.size": "How many members a classic group may have; further members are refused.",
    "group.min.session.timeout.ms": "The shortest session in ms that a member of a classic group may ask for.",
    "offset.metadata.max.bytes": "How many bytes of metadata a client may commit with an offset.",
    "offsets.commit.timeout.ms":
        "A request to a group gets an error if its records are not committed after this many ms. The records stay.",
    "offsets.retention.check.interval.ms": "How often the broker checks for expired committed offsets, in ms.",
    "offsets.retention.minutes":
        "A committed offset expires this many minutes after its group became empty or unsubscribed from the topic.",
    "offsets.topic.num.partitions":
        "How many partitions `__consumer_offsets` is created with; a later change would assign groups to other "
        "partitions.",
    "offsets.topic.replication.factor":
        "How many replicas `__consumer_offsets` is created with; it waits for that many brokers.",
    "offsets.topic.segment.bytes":
        "The segment size in bytes of `__consumer_offsets`; small ones are compacted and loaded sooner.",

    # Transactions
    "add.partitions.to.txn.retry.backoff.max.ms":
        "How many ms a request or a write of a transaction may wait for the previous transaction to end; 0 means "
        "not at all.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms":
        "How often the broker checks for transactions that have timed out, in ms.",
    "transaction.max.timeout.ms": "The longest transaction timeout in ms that a producer may request.",
    "transaction.partition.verification.enable":
        "Whether the leader of a partition verifies with the coordinator that a transaction is open before its "
        "first write.",
    "transaction.remove.expired.transaction.cleanup.interval.ms":
        "How often the broker checks for expired transactional ids, in ms.",
    "transaction.state.log.min.isr": "The `min.insync.replicas` that `__transaction_state` is created with.",
    "transaction.state.log.num.partitions":
        "How many partitions `__transaction_state` is created with; a later change would assign ids to other "
        "partitions.",
    "transaction.state.log.replication.factor":
        "How many replicas `__transaction_state` is created with; it waits for that many brokers.",
    "transaction.state.log.segment.bytes":
        "The segment size in bytes of `__transaction_state`; small ones are compacted and loaded sooner.",
    "transactional.id.expiration.ms": "A transactional id expires after this many ms without a transaction.",

    # Metrics of clients
    "interval.ms": "How often clients of this subscription push their metrics, in ms.",
    "match":
        "The clients that the subscription applies to, as pairs of a property and a regular expression; empty means "
        "all.",
    "metrics": "The metrics that clients push, by prefixes of their names; empty means none, * all.",
    "telemetry.max.bytes": "How many bytes of metrics a client may push at once, both compressed and decompressed.",

    # Classes of Java
    "alter.config.policy.class.name":
        "The class that validates changes of configs; not loaded, see pykbroker.ignore.classes.",
    "authorizer.class.name":
        "The class that authorizes requests: Kafka's StandardAuthorizer for ACLs, or empty to allow all; no other is "
        "loaded, see pykbroker.ignore.classes.",
    "client.quota.callback.class":
        "The class that determines a client's quota; not loaded, see pykbroker.ignore.classes.",
    "create.topic.policy.class.name": "The class that validates new topics; not loaded, see pykbroker.ignore.classes.",
    "principal.builder.class":
        "The class that determines the principal of a connection; not loaded, see pykbroker.ignore.classes.",
    "ssl.engine.factory.class":
        "The class that makes the engines of TLS; not loaded, see pykbroker.ignore.classes.",

    # pykbroker's own
    "pykbroker.client.descriptors.min":
        "How many file descriptors of the process are reserved for clients, so that partitions cannot use them; -1 "
        "reserves a quarter, at most 1,000.",
    "pykbroker.flush.before.ack":
        "Whether a batch is flushed to disk, by an fsync that many batches share, before it is acknowledged or "
        "consumed.",
    "pykbroker.ignore.classes":
        "The configs, such as authorizer.class.name, whose Java classes are ignored; any other Java class prevents "
        "the broker from starting.",
    "pykbroker.memory.budget.bytes":
        "The broker's memory budget. A quarter of it bounds requests and responses in flight; if "
        "queued.max.request.bytes is smaller, that bounds them.",
    "pykbroker.metrics.partitions.max":
        "How many partitions, and how many committed offsets of groups, the console has metrics for; 0 disables the "
        "metrics of topics and groups.",
    "pykbroker.scrub.bytes.per.second":
        "How many bytes per second are read from idle logs to detect corruption; 0 disables scrubbing.",
    "pykbroker.scrub.interval.ms": "How many ms lie between the starts of two scrubbing passes over all logs.",
    "pykbroker.validate.records":
        "Whether every record of a produced batch is validated, not only the batch's header and checksum, and the "
        "framing of its compression.",

    # TLS
    "ssl.allow.dn.changes":
        "Whether a keystore that is read again may have a certificate of another distinguished name.",
    "ssl.allow.san.changes":
        "Whether a keystore that is read again may have a certificate that is not for all hosts of the one before.",
    "ssl.cipher.suites":
        "The cipher suites that TLS may use, by their IANA names; empty means those of OpenSSL. Of those of TLSv1.3 "
        "all or none are used.",
    "ssl.client.auth":
        "Whether clients must show a certificate: `required`, `requested` or `none`. On SASL_SSL it counts only with "
        "the prefix of the listener.",
    "ssl.endpoint.identification.algorithm":
        "Whether the certificate of another node must be for the host that this node connects to: `https`, or empty "
        "for no verification.",
    "ssl.enabled.protocols": "The versions of TLS that connections may use: TLSv1.2 and TLSv1.3.",
    "ssl.key.password": "The password of the private key; unset means that of the keystore.",
    "ssl.keystore.certificate.chain": "The certificates of the broker as PEM text, its own first.",
    "ssl.keystore.key": "The private key of the broker as PEM text.",
    "ssl.keystore.location":
        "The file of the broker's private key and certificates, which is read again when it changes.",
    "ssl.keystore.password": "The password of the keystore, if it is of type PKCS12 or JKS.",
    "ssl.keystore.type":
        "The format of the keystore: PEM, PKCS12, or JKS for a PKCS12 file of keytool. All but PEM needs the extra "
        "`security`.",
    "ssl.principal.mapping.rules":
        "Rules that make the name of a principal from the distinguished name of a client's certificate (KIP-371).",
    "ssl.truststore.certificates": "The certificates that may have signed those of clients, as PEM text.",
    "ssl.truststore.location": "The file of the certificates that may have signed those of clients.",
    "ssl.truststore.password": "The password of the truststore, if it is of type PKCS12 or JKS.",
    "ssl.truststore.type": "The format of the truststore: PEM, PKCS12, or JKS for a PKCS12 file of keytool.",
}

UNUSED = {
    # Threads, sockets and other machinery
    "background.threads": "how many threads do chores such as deleting files.",
    "delete.records.purgatory.purge.interval.requests":
        "after how many waiting requests to delete records the finished ones are cleared out.",
    "fetch.purgatory.purge.interval.requests": "after how many waiting fetches the finished ones are cleared out.",
    "num.io.threads": "how many threads handle requests.",
    "num.network.threads": "how many threads of each listener read requests and write answers.",
    "num.recovery.threads.per.data.dir":
        "how many threads of each log directory load logs at the start and flush them at the end.",
    "producer.purgatory.purge.interval.requests":
        "after how many waiting produce requests the finished ones are cleared out.",
    "server.max.startup.time.ms": "after how many ms a broker that has not started gives up.",
    "share.fetch.purgatory.purge.interval.requests":
        "after how many waiting share fetches the finished ones are cleared out.",
    "unstable.api.versions.enable": "whether versions of APIs that are not final are served.",
    "unstable.feature.versions.enable": "whether levels of features that are not final may be used.",

    # Topics and their logs, by the names of topic configs; broker configs with other names follow from these
    "local.retention.bytes":
        "how many bytes of a tiered partition remain on local disk; -2 means `retention.bytes`, -1 all.",
    "local.retention.ms": "how many ms a tiered segment remains on local disk; -2 means `retention.ms`, -1 forever.",
    "preallocate": "whether the file of a new segment is allocated on disk in its full size.",
    "remote.log.copy.disable": "whether a tiered topic stops copying to remote storage and only reads what is there.",
    "remote.log.delete.on.disable": "whether remote data is deleted when tiered storage is disabled for a topic.",
    "remote.storage.enable": "whether closed segments of a topic are copied to remote storage.",

    # Topics and their logs, for the whole broker
    "log.cleaner.io.buffer.size": "the size in bytes of the buffers with which compaction reads and writes records.",
    "log.cleaner.threads": "how many threads compact logs.",
    "log.flush.offset.checkpoint.interval.ms":
        "how often the recovery points of logs are written to a checkpoint file, in ms.",
    "log.flush.start.offset.checkpoint.interval.ms":
        "how often the log start offsets are written to a checkpoint file, in ms.",
    "log.initial.task.delay.ms": "how many ms after the start the background tasks of the logs begin.",
    "producer.id.expiration.check.interval.ms": "how often partitions check for expired producer ids, in ms.",

    # Replication
    "num.replica.alter.log.dirs.threads":
        "how many threads move replicas between log directories; unset means one for each directory.",

    # The quorum and its metadata log
    "controller.performance.always.log.threshold.ms":
        "an event that keeps the controller for longer than this many ms is logged.",
    "controller.performance.sample.period.ms": "how often the controller logs how long its events take, in ms.",
    "controller.quorum.append.linger.ms":
        "how many ms the leader of the quorum collects records before it writes them to disk.",
    "controller.quorum.auto.join.enable": "whether a controller joins the voters of a quorum automatically.",
    "controller.quorum.election.backoff.max.ms":
        "the longest time in ms that a candidate waits before it starts another election.",
    "controller.quorum.election.timeout.ms":
        "how many ms a candidate collects votes before it starts another election.",
    "controller.quorum.fetch.timeout.ms":
        "after how many ms without a successful fetch a follower becomes a candidate, or a leader resigns.",
    "controller.quota.window.num": "over how many windows the rate of changes to topics is averaged.",
    "controller.quota.window.size.seconds": "how long each window is that measures changes to topics, in s.",
    "internal.metadata.delete.delay.millis": "how many ms a deleted file of the metadata log stays on disk.",
    "internal.metadata.max.batch.size.in.bytes": "the largest batch of metadata records in bytes.",
    "metadata.log.dir": "the directory of the metadata log; unset means the first log directory.",
    "metadata.max.idle.interval.ms": "how often an idle controller writes a no-op record, in ms; 0 means never.",

    # Groups and their offsets
    "group.consumer.assignment.interval.ms":
        "the shortest time between two assignments of a group of the consumer protocol, in ms; 0 means none.",
    "group.consumer.max.assignment.interval.ms":
        "the largest `consumer.assignment.interval.ms` that a group may set.",
    "group.consumer.min.assignment.interval.ms":
        "the smallest `consumer.assignment.interval.ms` that a group may set.",
    "group.coordinator.append.linger.ms":
        "how many ms the group coordinator collects records for a write; -1 adapts the time to the load.",
    "group.coordinator.background.threads": "how many threads match regular expressions and compute assignments.",
    "group.coordinator.cached.buffer.max.bytes":
        "the largest write buffer, in bytes, that the group coordinator keeps for the next write.",
    "group.coordinator.threads": "how many threads the group coordinator has.",
    "offsets.load.buffer.size": "how many bytes of `__consumer_offsets` are read at once when groups are loaded.",
    "offsets.topic.compression.codec": "the codec of `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",

    # Share groups and streams groups
    "group.share.assignment.interval.ms":
        "the shortest time between two assignments of a share group, in ms; 0 means none.",
    "group.share.assignors": "the assignors of share groups; only the first is used.",
    "group.share.delivery.count.limit": "how often a share group delivers a record before the record is archived.",
    "group.share.heartbeat.interval.ms": "the heartbeat interval in ms that members of a share group are given.",
    "group.share.initialize.retry.interval.ms":
        "how many ms pass before a share group retries the initialization of a partition's state.",
    "group.share.max.assignment.interval.ms":
        "the largest `share.assignment.interval.ms` that a share group may set.",
    "group.share.max.delivery.count.limit": "the largest `share.delivery.count.limit` that a share group may set.",
    "group.share.max.heartbeat.interval.ms":
        "the largest `share.heartbeat.interval.ms` that a share group may set.",
    "group.share.max.partition.max.record.locks":
        "the largest `share.partition.max.record.locks` that a share group may set.",
    "group.share.max.record.lock.duration.ms":
        "the largest `share.record.lock.duration.ms` that a share group may set.",
    "group.share.max.session.timeout.ms": "the largest `share.session.timeout.ms` that a share group may set.",
    "group.share.max.share.sessions": "how many share sessions a broker keeps.",
    "group.share.max.size": "how many members a share group may have.",
    "group.share.min.assignment.interval.ms":
        "the smallest `share.assignment.interval.ms` that a share group may set.",
    "group.share.min.delivery.count.limit": "the smallest `share.delivery.count.limit` that a share group may set.",
    "group.share.min.heartbeat.interval.ms":
        "the smallest `share.heartbeat.interval.ms` that a share group may set.",
    "group.share.min.partition.max.record.locks":
        "the smallest `share.partition.max.record.locks` that a share group may set.",
    "group.share.min.record.lock.duration.ms":
        "the smallest `share.record.lock.duration.ms` that a share group may set.",
    "group.share.min.session.timeout.ms": "the smallest `share.session.timeout.ms` that a share group may set.",
    "group.share.partition.max.record.locks":
        "how many records of a partition may be acquired by consumers of a share group at once.",
    "group.share.persister.class.name": "the class that persists the state of share groups.",
    "group.share.record.lock.duration.ms":
        "how many ms a consumer of a share group holds an acquired record before others may acquire it.",
    "group.share.session.timeout.ms": "after how many ms without a heartbeat a member is removed from a share group.",
    "group.streams.assignment.interval.ms":
        "the shortest time between two assignments of a streams group, in ms; 0 means none.",
    "group.streams.heartbeat.interval.ms": "the heartbeat interval in ms that members of a streams group are given.",
    "group.streams.initial.rebalance.delay.ms":
        "how many ms an empty streams group waits for more members before it assigns tasks.",
    "group.streams.max.assignment.interval.ms":
        "the largest `streams.assignment.interval.ms` that a streams group may set.",
    "group.streams.max.heartbeat.interval.ms":
        "the largest `streams.heartbeat.interval.ms` that a streams group may set.",
    "group.streams.max.session.timeout.ms":
        "the largest `streams.session.timeout.ms` that a streams group may set.",
    "group.streams.max.size": "how many members a streams group may have.",
    "group.streams.max.standby.replicas":
        "the largest `streams.num.standby.replicas` that a streams group may set.",
    "group.streams.min.assignment.interval.ms":
        "the smallest `streams.assignment.interval.ms` that a streams group may set.",
    "group.streams.min.heartbeat.interval.ms":
        "the smallest `streams.heartbeat.interval.ms` that a streams group may set.",
    "group.streams.min.session.timeout.ms":
        "the smallest `streams.session.timeout.ms` that a streams group may set.",
    "group.streams.num.standby.replicas":
        "how many spare copies of each task's state a streams group keeps; 0 means none.",
    "group.streams.session.timeout.ms":
        "after how many ms without a heartbeat a member is removed from a streams group.",
    "share.auto.offset.reset":
        "the start position of a share group in a partition that is new to it: earliest, latest, or a duration "
        "before the present.",
    "share.isolation.level": "whether a share group reads only committed records of transactions, or all records.",
    "share.renew.acknowledge.enable": "whether consumers of a share group may extend the lock on a record.",

    # The share coordinator
    "share.coordinator.append.linger.ms":
        "how many ms the share coordinator collects records for a write; -1 adapts the time to the load.",
    "share.coordinator.cached.buffer.max.bytes":
        "the largest write buffer, in bytes, that the share coordinator keeps for the next write.",
    "share.coordinator.cold.partition.snapshot.interval.ms":
        "how often a snapshot of the state of an inactive partition is written, in ms.",
    "share.coordinator.load.buffer.size": "how many bytes of `__share_group_state` are read at once when it is loaded.",
    "share.coordinator.snapshot.update.records.per.snapshot":
        "after how many update records a snapshot of a share-partition is written.",
    "share.coordinator.state.topic.compression.codec":
        "the codec of `__share_group_state`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "share.coordinator.state.topic.min.isr": "the `min.insync.replicas` that `__share_group_state` is created with.",
    "share.coordinator.state.topic.num.partitions": "how many partitions `__share_group_state` is created with.",
    "share.coordinator.state.topic.prune.interval.ms":
        "how often superseded records are deleted from `__share_group_state`, in ms.",
    "share.coordinator.state.topic.replication.factor": "how many replicas `__share_group_state` is created with.",
    "share.coordinator.state.topic.segment.bytes": "the segment size in bytes of `__share_group_state`.",
    "share.coordinator.threads": "how many threads the share coordinator has.",
    "share.coordinator.write.timeout.ms": "how many ms a write of the share coordinator may take to be replicated.",

    # Transactions
    "add.partitions.to.txn.retry.backoff.ms":
        "how many ms pass between two checks whether the previous transaction has ended.",
    "transaction.state.log.load.buffer.size":
        "how many bytes of `__transaction_state` are read at once when it is loaded.",
    "transaction.two.phase.commit.enable":
        "whether producers may take part in two-phase commit, with transactions that never time out.",

    # Security
    "delegation.token.expiry.check.interval.ms": "how often the broker checks for expired delegation tokens, in ms.",
    "delegation.token.expiry.time.ms": "how many ms a delegation token is valid before it must be renewed.",
    "delegation.token.max.lifetime.ms": "after how many ms a delegation token can no longer be renewed.",
    "delegation.token.secret.key":
        "the secret that signs delegation tokens, equal on all nodes; unset means no tokens.",
    "sasl.client.callback.handler.class": "the callback handler class of the broker's own SASL client logins.",
    "sasl.kerberos.kinit.cmd": "the path of kinit, which renews Kerberos tickets.",
    "sasl.kerberos.min.time.before.relogin": "the shortest time between two renewals of a Kerberos ticket, in ms.",
    "sasl.kerberos.principal.to.local.rules":
        "the rules that map a Kerberos principal to a user name; the first match applies.",
    "sasl.kerberos.service.name": "the name of the service in the broker's Kerberos principal.",
    "sasl.kerberos.ticket.renew.jitter": "the random share of the time until a Kerberos ticket is renewed.",
    "sasl.kerberos.ticket.renew.window.factor": "after what share of a Kerberos ticket's life it is renewed.",
    "sasl.login.callback.handler.class": "the class that supplies the credentials of the broker's own login.",
    "sasl.login.class": "the class that performs and renews the broker's own login.",
    "sasl.login.connect.timeout.ms": "how many ms a connection to a provider of OAuth tokens may take to make.",
    "sasl.login.read.timeout.ms": "how many ms a provider of OAuth tokens may take to answer.",
    "sasl.login.refresh.buffer.seconds":
        "how many s before its OAuth token expires the broker has a new one, if it can.",
    "sasl.login.refresh.min.period.seconds":
        "how many s the broker keeps an OAuth token, at least, before it gets a new one.",
    "sasl.login.refresh.window.factor": "after what share of an OAuth token's life the broker gets a new one.",
    "sasl.login.refresh.window.jitter":
        "what share of an OAuth token's life chance may add to the time of its renewal.",
    "sasl.login.retry.backoff.max.ms": "the longest time between two attempts to get an OAuth token, in ms.",
    "sasl.login.retry.backoff.ms":
        "how many ms pass before the first new try to get an OAuth token; later ones wait longer.",
    "sasl.oauthbearer.assertion.algorithm":
        "how the assertion is signed that is traded for an OAuth token: RS256 or ES256.",
    "sasl.oauthbearer.assertion.claim.aud": "the audience (aud) that the assertion for an OAuth token names.",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "for how many s the assertion for an OAuth token is valid (exp).",
    "sasl.oauthbearer.assertion.claim.iss": "the issuer (iss) that the assertion for an OAuth token names.",
    "sasl.oauthbearer.assertion.claim.jti.include":
        "whether each assertion for an OAuth token has an id of its own (jti).",
    "sasl.oauthbearer.assertion.claim.nbf.seconds":
        "how many s before it was made the assertion for an OAuth token is valid (nbf).",
    "sasl.oauthbearer.assertion.claim.sub": "the subject (sub) that the assertion for an OAuth token names.",
    "sasl.oauthbearer.assertion.file":
        "the file of a finished assertion for an OAuth token; it is read again when it changes.",
    "sasl.oauthbearer.assertion.private.key.file":
        "the file of the private key, in PEM, that signs the assertion for an OAuth token.",
    "sasl.oauthbearer.assertion.private.key.passphrase":
        "the passphrase of the private key that signs the assertion for an OAuth token.",
    "sasl.oauthbearer.assertion.template.file":
        "the JSON file with fixed headers and claims of the assertion for an OAuth token.",
    "sasl.oauthbearer.client.credentials.client.id": "the client id that the broker gets its OAuth token with.",
    "sasl.oauthbearer.client.credentials.client.secret": "the client secret that the broker gets its OAuth token with.",
    "sasl.oauthbearer.clock.skew.seconds":
        "by how many s the clocks of the broker and of an OAuth provider may differ.",
    "sasl.oauthbearer.expected.audience":
        "the audiences of which a client's OAuth token must name one; empty means any.",
    "sasl.oauthbearer.expected.issuer": "the issuer that a client's OAuth token must come from; unset means any.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "how often the keys that verify OAuth tokens are loaded again, in ms.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms":
        "the longest time between two attempts to load the keys that verify OAuth tokens, in ms.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms":
        "how many ms pass before the first new try to load the keys that verify OAuth tokens.",
    "sasl.oauthbearer.jwks.endpoint.url": "where the keys that verify OAuth tokens are, as an http, https or file URL.",
    "sasl.oauthbearer.jwt.retriever.class": "the class that gets an OAuth token.",
    "sasl.oauthbearer.jwt.validator.class": "the class that checks an OAuth token.",
    "sasl.oauthbearer.scope": "the scope that the broker asks an OAuth token for.",
    "sasl.oauthbearer.scope.claim.name": "the claim of an OAuth token that holds its scope.",
    "sasl.oauthbearer.sub.claim.name": "the claim of an OAuth token that holds its subject, the user.",
    "sasl.oauthbearer.token.endpoint.url": "where OAuth tokens are handed out, as an http, https or file URL.",
    "sasl.server.callback.handler.class":
        "the class that checks the credentials of clients; set for one listener and mechanism.",
    "security.providers": "classes that add security algorithms to Java.",
    "ssl.keymanager.algorithm": "the algorithm of Java's key manager for TLS.",
    "ssl.protocol": "the protocol with which Java creates its TLS context.",
    "ssl.provider": "the Java provider of TLS; unset means that of Java itself.",
    "ssl.secure.random.implementation":
        "the Java generator of random numbers for TLS; unset means that of Java itself.",
    "ssl.trustmanager.algorithm": "the algorithm of Java's trust manager for TLS.",

    # Tiered storage
    "follower.fetch.last.tiered.offset.enable":
        "whether a new follower starts after the last tiered offset instead of at the log start offset.",
    "remote.fetch.max.wait.ms": "how many ms a fetch may wait for records from remote storage.",
    "remote.list.offsets.request.timeout.ms": "how many ms a search for an offset may take in remote storage.",
    "remote.log.index.file.cache.total.size.bytes":
        "how many bytes of indexes from remote storage are kept on local disk.",
    "remote.log.index.file.cache.ttl.ms":
        "after how many ms without use an index from remote storage leaves the local disk; -1 means never.",
    "remote.log.manager.copier.thread.pool.size": "how many threads copy segments to remote storage.",
    "remote.log.manager.copy.max.bytes.per.second": "how many bytes a second may be copied to remote storage.",
    "remote.log.manager.copy.quota.window.num":
        "over how many windows the rate of copies to remote storage is averaged.",
    "remote.log.manager.copy.quota.window.size.seconds":
        "how long each window is that measures copies to remote storage, in s.",
    "remote.log.manager.expiration.thread.pool.size": "how many threads delete expired segments from remote storage.",
    "remote.log.manager.fetch.max.bytes.per.second": "how many bytes a second may be read from remote storage.",
    "remote.log.manager.fetch.quota.window.num":
        "over how many windows the rate of reads from remote storage is averaged.",
    "remote.log.manager.fetch.quota.window.size.seconds":
        "how long each window is that measures reads from remote storage, in s.",
    "remote.log.manager.follower.thread.pool.size":
        "how many threads keep followers informed of what is in remote storage.",
    "remote.log.manager.task.interval.ms":
        "how often partitions are checked for segments to copy to, or delete from, remote storage, in ms.",
    "remote.log.manager.task.retry.backoff.max.ms":
        "the longest time between two attempts of a failed remote task, in ms.",
    "remote.log.manager.task.retry.backoff.ms": "how many ms pass before the first new try of a failed remote task.",
    "remote.log.manager.task.retry.jitter":
        "what share of the time before a new try of a remote task is left to chance.",
    "remote.log.manager.thread.pool.size": "how many threads schedule the work of tiered storage.",
    "remote.log.metadata.custom.metadata.max.bytes":
        "how many bytes of its own metadata a storage plugin may store with each segment.",
    "remote.log.metadata.manager.class.name": "the class that manages the metadata of remote segments.",
    "remote.log.metadata.manager.class.path":
        "the class path of the manager of remote segments' metadata; unset means Kafka's own path.",
    "remote.log.metadata.manager.impl.prefix": "the prefix of configs for the manager of remote segments' metadata.",
    "remote.log.metadata.manager.listener.name":
        "the listener over which the manager of remote segments' metadata connects to brokers.",
    "remote.log.reader.max.pending.tasks": "how many reads from remote storage may wait; more are refused.",
    "remote.log.reader.threads": "how many threads read from remote storage.",
    "remote.log.storage.manager.class.name": "the class that stores segments remotely.",
    "remote.log.storage.manager.class.path":
        "the class path of the class that stores segments remotely; unset means Kafka's own path.",
    "remote.log.storage.manager.impl.prefix": "the prefix of configs for the class that stores segments remotely.",
    "remote.log.storage.system.enable": "whether the broker has tiered storage, which topics may then use.",

    # Quotas, metrics and the rest
    "kafka.metrics.polling.interval.secs": "how often reporters of the older kind collect metrics, in s.",
    "kafka.metrics.reporters": "classes of the older kind that report metrics.",
    "metric.reporters": "the classes that report metrics.",
    "metrics.num.samples": "over how many samples a metric such as a rate is computed.",
    "metrics.recording.level": "the most detailed level of recorded metrics: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "how many ms each sample of a metric covers.",
    "quota.window.num": "over how many windows the rate of a client is averaged for its quota.",
    "quota.window.size.seconds": "how long each window is that measures a client for its quota, in s.",
    "connection_creation_rate": "how many new connections per second an address may open.",
    "consumer_byte_rate": "how many bytes per second a client may fetch from a broker before it is throttled.",
    "controller_mutation_rate": "how many partitions per second a client may create or delete before it is throttled.",
    "producer_byte_rate": "how many bytes per second a client may produce to a broker before it is throttled.",
    "request_percentage": "the percentage of a thread's time that a client's requests may use before it is throttled.",
}
"""Configs that have no effect in this broker, with their effect in Kafka."""

NO_EFFECT = "Has no effect here. In Kafka: "
DOCS = {**USED, **{name: NO_EFFECT + text for name, text in UNUSED.items()}}
DOCS.update({under[0]: DOCS[name] for name, under in TOPIC_SYNONYMS.items()})
DOCS.update({name: DOCS[under] for name, under in GROUP_SYNONYMS.items() if name not in DOCS})
"""The description of every config, by name."""
# fmt: on


def documentation(name: str) -> str:
    """Return the description of a config, with or without the prefix of a listener; "" for an unknown config."""
    return DOCS.get(base_of(name), "")
