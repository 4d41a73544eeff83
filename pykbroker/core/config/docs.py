"""A description of each config in one or two sentences. The module is large, so callers import it only when needed."""

from __future__ import annotations

from pykbroker.core.config.table import GROUP_SYNONYMS, LISTENER_PREFIX, TOPIC_SYNONYMS

# fmt: off
OBEYED = {
    # The node and what it listens on
    "advertised.listeners":
        "The addresses that clients are told to connect to, per listener; unset means those of `listeners`.",
    "broker.id": "The older name of `node.id`; where both are set they must be equal.",
    "broker.rack":
        "The rack or zone that this broker stands in; clients are told, and replicas of a partition are spread over "
        "racks.",
    "connections.max.idle.ms": "A connection on which nothing was asked or answered for this many ms is closed.",
    "controller.listener.names": "Names of listeners that serve controllers; clients cannot connect to them.",
    "fetch.max.bytes":
        "The largest answer to a fetch in bytes, whatever its client would take; a first batch that is larger still "
        "goes out.",
    "listener.security.protocol.map":
        "The security protocol of each listener, as NAME:PROTOCOL pairs; here all that serve clients are PLAINTEXT.",
    "listeners":
        "Where the broker accepts connections, as NAME://host:port; no host means all addresses, port 0 any free one.",
    "max.connection.creation.rate": "How many new connections a second are accepted; those beyond it wait.",
    "max.connections":
        "How many connections may be open at once; at that many, a new one waits until another is closed.",
    "max.connections.per.ip":
        "How many connections one address may have open; more are closed at once. 0 needs exceptions in the "
        "overrides.",
    "max.connections.per.ip.overrides":
        "Addresses or hosts that have a limit of connections of their own, as address:count or name:count pairs.",
    "max.incremental.fetch.session.cache.slots":
        "How many fetch sessions are remembered at once; 0 means none, and each fetch names all its partitions.",
    "max.request.partition.size.limit":
        "The most partitions that one answer of DescribeTopicPartitions holds; its client asks again for the rest.",
    "node.id": "The number of this node, unique in the cluster and the same over all restarts.",
    "queued.max.request.bytes":
        "How many bytes of requests may wait or be at work; at that many no more are read. -1 means no limit of its "
        "own.",
    "queued.max.requests":
        "How many requests may wait or be at work at once; at that many no more are read from connections.",
    "socket.listen.backlog.size":
        "How many connections may wait in the kernel to be accepted; the kernel's own limit holds as well.",
    "socket.receive.buffer.bytes":
        "Bytes of a connection's receive buffer in the kernel; -1 leaves it to the operating system.",
    "socket.request.max.bytes": "The largest request in bytes; a connection that announces a larger one is closed.",
    "socket.send.buffer.bytes":
        "Bytes of a connection's send buffer in the kernel; -1 leaves it to the operating system.",

    # Topics and their logs, as a topic calls them; what a broker calls otherwise is added below
    "cleanup.policy":
        "What is done with old records: delete drops whole segments, compact keeps each key's newest value, or both.",
    "compression.gzip.level":
        "How hard gzip tries where the broker compresses: 1 is fastest, 9 smallest, -1 what the library takes.",
    "compression.lz4.level": "How hard lz4 tries where the broker compresses: 1 is fastest, 17 smallest.",
    "compression.type":
        "The codec that batches are stored in; producer leaves them as they came, uncompressed stores them plain.",
    "compression.zstd.level":
        "How hard zstd tries where the broker compresses: 22 is smallest, negative levels are fastest.",
    "delete.retention.ms":
        "How many ms a tombstone outlives its compaction, so that readers in between learn of the deletion.",
    "file.delete.delay.ms":
        "How many ms the files of a deleted segment stay on disk under another name before they are removed.",
    "flush.messages":
        "An fsync follows once this many records of a partition are not yet on disk; the default leaves it to the "
        "system.",
    "flush.ms": "How many ms records may stay unsynced before an fsync; the default leaves it to the system.",
    "index.interval.bytes": "After how many bytes of records the offset index and the time index get another entry.",
    "internal.segment.bytes":
        "The size of a segment in bytes where tests need one smaller than `segment.bytes` allows.",
    "max.compaction.lag.ms": "After this many ms a record has to be compacted, however little of the log is dirty.",
    "max.message.bytes": "The largest batch in bytes, as it comes from its producer, that is taken.",
    "message.timestamp.after.max.ms":
        "How many ms a record's time may lie ahead of the broker's clock; no limit under LogAppendTime.",
    "message.timestamp.before.max.ms":
        "How many ms a record's time may lie behind the broker's clock; no limit under LogAppendTime.",
    "message.timestamp.type":
        "Whose time a record bears: CreateTime is that of its producer, LogAppendTime that of its arrival.",
    "min.cleanable.dirty.ratio":
        "A log is compacted when at least this share of it, from 0 to 1, was written since the last time.",
    "min.compaction.lag.ms": "For this many ms after it was written a record is not compacted; 0 sets no such time.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all; with fewer it is refused.",
    "retention.bytes":
        "The oldest segments go when a partition could lose them and still have this many bytes; -1 means no limit.",
    "retention.ms":
        "A segment goes when its newest record is older than this many ms; -1 means that age deletes nothing.",
    "segment.bytes": "When a segment would grow past this many bytes, a new one is begun.",
    "segment.index.bytes": "The largest index of a segment in bytes; when one is full a new segment is begun.",
    "segment.jitter.ms":
        "Up to this many ms are taken off `segment.ms` at random, so that not all partitions roll at once.",
    "segment.ms": "When a segment's records span this many ms a new one is begun, even if it is not full.",
    "unclean.leader.election.enable":
        "Whether a replica that lags behind may lead when no other lives, which loses acknowledged records.",

    # Topics and their logs, for the whole broker
    "auto.create.topics.enable": "Whether a topic that a client asks for, and that is not there, is created.",
    "default.replication.factor": "How many replicas a partition has where whoever creates the topic does not say.",
    "delete.topic.enable": "Whether admins may delete topics; if not, they are refused.",
    "log.cleaner.backoff.ms": "How many ms the cleaner rests when it finds no log to compact.",
    "log.cleaner.dedupe.buffer.size":
        "Memory in bytes for the keys of one round of compaction; more keys take more rounds.",
    "log.cleaner.enable": "Whether logs are compacted at all; without it topics with the policy compact only grow.",
    "log.cleaner.io.buffer.load.factor": "What share of the memory for keys is filled, from 0 to 1.",
    "log.cleaner.io.max.bytes.per.second":
        "How many bytes a second compaction reads and writes, so that clients keep their share of the disk.",
    "log.dir": "The directory of the logs, or several with commas; counts only where `log.dirs` is unset.",
    "log.dirs": "The directories that partitions are spread over; unset means that of `log.dir`.",
    "log.flush.scheduler.interval.ms": "How often logs are looked over for records that are due for an fsync, in ms.",
    "log.retention.check.interval.ms": "How often logs are looked over for segments that retention lets go, in ms.",
    "log.retention.hours":
        "As `retention.ms`, in hours, for topics that set none; -1 means forever. Minutes and ms win over it.",
    "log.retention.minutes":
        "As `retention.ms`, in minutes, for topics that set none; -1 means forever. `log.retention.ms` wins over it.",
    "log.roll.hours": "As `segment.ms`, in hours, for topics that set none; `log.roll.ms` wins over it.",
    "log.roll.jitter.hours":
        "As `segment.jitter.ms`, in hours, for topics that set none; `log.roll.jitter.ms` wins over it.",
    "num.partitions": "How many partitions a topic gets where whoever creates it does not say.",
    "producer.id.expiration.ms":
        "After this many ms without a write a partition forgets an idempotent producer and its sequence.",
    "replica.high.watermark.checkpoint.interval.ms": "How often the high watermarks are written to disk, in ms.",

    # The metadata log
    "internal.metadata.log.segment.bytes":
        "The size of a metadata segment in bytes where tests need one smaller than its config allows.",
    "metadata.log.max.record.bytes.between.snapshots":
        "After this many bytes of new metadata records a snapshot is taken.",
    "metadata.log.max.snapshot.interval.ms":
        "A snapshot is taken after this many ms if there are new metadata records; 0 means never by time.",
    "metadata.log.segment.bytes":
        "When a segment of the metadata log would grow past this many bytes, a new one is begun.",
    "metadata.log.segment.ms": "After this many ms a segment of the metadata log is closed and a new one begun.",
    "metadata.max.retention.bytes":
        "Old metadata goes while its segments and snapshots exceed this many bytes; -1 means no limit.",
    "metadata.max.retention.ms":
        "Metadata that a snapshot holds and that is older than this many ms may go; -1 means no limit.",

    # Groups and their offsets
    "consumer.heartbeat.interval.ms": "How often members of the group are told to send heartbeats, in ms.",
    "consumer.session.timeout.ms": "A member is put out of the group after this many ms without a heartbeat.",
    "group.consumer.assignors":
        "The ways to share out partitions that the consumer protocol offers, uniform and range, the default first.",
    "group.consumer.heartbeat.interval.ms":
        "How often members of a group of the consumer protocol are told to send heartbeats, in ms.",
    "group.consumer.max.heartbeat.interval.ms":
        "The most that a group may set its `consumer.heartbeat.interval.ms` to.",
    "group.consumer.max.session.timeout.ms": "The most that a group may set its `consumer.session.timeout.ms` to.",
    "group.consumer.min.heartbeat.interval.ms":
        "The least that a group may set its `consumer.heartbeat.interval.ms` to.",
    "group.consumer.min.session.timeout.ms": "The least that a group may set its `consumer.session.timeout.ms` to.",
    "group.consumer.max.size": "How many members a group of the consumer protocol may have; more are refused.",
    "group.consumer.migration.policy":
        "Which groups may change protocol while they have members: from classic, back to it, both ways or none.",
    "group.consumer.session.timeout.ms":
        "A member of the consumer protocol is put out of its group after this many ms without a heartbeat.",
    "group.coordinator.rebalance.protocols": "The group protocols that are served, such as classic and consumer.",
    "group.initial.rebalance.delay.ms":
        "How many ms an empty classic group waits for more members before it first shares out partitions.",
    "group.max.session.timeout.ms": "The longest session in ms that a member of a classic group may ask for.",
    "group.max.size": "How many members a classic group may have; more are refused.",
    "group.min.session.timeout.ms": "The shortest session in ms that a member of a classic group may ask for.",
    "offset.metadata.max.bytes": "How many bytes of text a client may commit beside an offset.",
    "offsets.retention.check.interval.ms":
        "How often committed offsets are looked over for those that have expired, in ms.",
    "offsets.retention.minutes":
        "A committed offset expires this many minutes after its group became empty or stopped reading the topic.",
    "offsets.topic.num.partitions":
        "How many partitions `__consumer_offsets` is created with; to change it later would mix up groups.",
    "offsets.topic.replication.factor":
        "How many replicas `__consumer_offsets` is created with; it waits for that many brokers.",
    "offsets.topic.segment.bytes":
        "The segment size in bytes of `__consumer_offsets`; small ones are compacted and loaded sooner.",

    # Transactions
    "add.partitions.to.txn.retry.backoff.max.ms":
        "How many ms a request or a write of a transaction may wait for the one before it to end; 0 means not at all.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms":
        "How often open transactions are looked over for those that took too long, in ms.",
    "transaction.max.timeout.ms": "The longest timeout in ms that a producer may ask for its transactions.",
    "transaction.partition.verification.enable":
        "Whether a partition asks the coordinator for an ongoing transaction before it takes its first write.",
    "transaction.remove.expired.transaction.cleanup.interval.ms":
        "How often transactional ids are looked over for those that have expired, in ms.",
    "transaction.state.log.min.isr": "The `min.insync.replicas` that `__transaction_state` is created with.",
    "transaction.state.log.num.partitions":
        "How many partitions `__transaction_state` is created with; to change it later would mix up ids.",
    "transaction.state.log.replication.factor":
        "How many replicas `__transaction_state` is created with; it waits for that many brokers.",
    "transaction.state.log.segment.bytes":
        "The segment size in bytes of `__transaction_state`; small ones are compacted and loaded sooner.",
    "transactional.id.expiration.ms": "After this many ms without a transaction a transactional id is forgotten.",

    # Metrics of clients
    "interval.ms": "How often clients of this subscription push their metrics, in ms.",
    "match": "Which clients the subscription is for, as pairs of a property and a regular expression; empty means all.",
    "metrics": "The metrics that clients push, by the beginnings of their names; empty means none, * all.",
    "telemetry.max.bytes": "How many bytes of metrics a client may push at once, also when they are decompressed.",

    # Classes of Java
    "alter.config.policy.class.name":
        "The class that may refuse changes of configs; not loaded, see pykbroker.ignore.classes.",
    "authorizer.class.name":
        "The class that decides who may do what, empty for all is allowed; not loaded, see pykbroker.ignore.classes.",
    "client.quota.callback.class":
        "The class that decides which quota a client has; not loaded, see pykbroker.ignore.classes.",
    "create.topic.policy.class.name":
        "The class that may refuse new topics; not loaded, see pykbroker.ignore.classes.",
    "principal.builder.class":
        "The class that says whom a connection belongs to; not loaded, see pykbroker.ignore.classes.",

    # pykbroker's own
    "pykbroker.client.descriptors.min":
        "How many of the files that the process may open are kept for clients, so that partitions do not take them; -1 "
        "keeps a quarter, at most 1,000.",
    "pykbroker.flush.before.ack":
        "Whether a batch is on disk, by an fsync that many share, before it is acknowledged or consumed.",
    "pykbroker.ignore.classes":
        "The configs, such as authorizer.class.name, whose classes of Java the broker goes on without; any other one "
        "keeps it from starting.",
    "pykbroker.memory.budget.bytes":
        "How much memory the broker plans with. A quarter of it is for requests and answers in flight, like "
        "queued.max.request.bytes, of which the smaller value holds.",
    "pykbroker.scrub.bytes.per.second":
        "How many bytes in a second are read from logs that nobody asks for, to find what does not hold any more; 0 "
        "switches that off.",
    "pykbroker.scrub.interval.ms": "How many ms lie between the beginnings of two passes over all logs.",
    "pykbroker.validate.records":
        "Whether every record of a produced batch is checked, not only the batch's header and checksum.",
}

IDLE = {
    # Threads, sockets and other machinery
    "background.threads": "how many threads do chores such as deleting files.",
    "connection.failed.authentication.delay.ms":
        "how many ms a client that failed to log in waits for its connection to be closed.",
    "delete.records.purgatory.purge.interval.requests":
        "after how many waiting requests to delete records the finished ones are cleared out.",
    "early.start.listeners": "the listeners that are open before the authorizer is ready, by name.",
    "fetch.purgatory.purge.interval.requests": "after how many waiting fetches the finished ones are cleared out.",
    "inter.broker.listener.name": "the listener on which brokers reach each other.",
    "log.dir.failure.timeout.ms": "after how many ms a broker that cannot report a failed log directory stops.",
    "num.io.threads": "how many threads handle requests.",
    "num.network.threads": "how many threads of each listener read requests and write answers.",
    "num.recovery.threads.per.data.dir":
        "how many threads of each log directory load logs at the start and flush them at the end.",
    "process.roles": "what a node is: broker, controller or both.",
    "producer.purgatory.purge.interval.requests":
        "after how many waiting produce requests the finished ones are cleared out.",
    "request.timeout.ms": "how many ms the broker waits for the answer to a request of its own.",
    "server.max.startup.time.ms": "after how many ms a broker that has not started gives up.",
    "share.fetch.purgatory.purge.interval.requests":
        "after how many waiting share fetches the finished ones are cleared out.",
    "socket.connection.setup.timeout.max.ms":
        "the most ms to which repeated failures stretch the time for making a connection.",
    "socket.connection.setup.timeout.ms": "how many ms the broker at first allows for a connection that it makes.",
    "unstable.api.versions.enable": "whether versions of APIs that are not final are served.",
    "unstable.feature.versions.enable": "whether levels of features that are not final may be used.",

    # Topics and their logs, as a topic calls them; what a broker calls otherwise is added below
    "follower.replication.throttled.replicas":
        "the replicas of a topic that catch up no faster than allowed, as partition:broker pairs; * means all.",
    "leader.replication.throttled.replicas":
        "the replicas of a topic whose leader sends no faster than allowed, as partition:broker pairs; * means all.",
    "local.retention.bytes":
        "how many bytes of a tiered partition stay on local disk; -2 means as `retention.bytes`, -1 all.",
    "local.retention.ms": "how many ms a tiered segment stays on local disk; -2 means as `retention.ms`, -1 forever.",
    "preallocate": "whether the file of a new segment takes its full size on disk at once.",
    "remote.log.copy.disable": "whether a tiered topic stops copying to remote storage and only reads what is there.",
    "remote.log.delete.on.disable": "whether a topic that stops being tiered loses what it has in remote storage.",
    "remote.storage.enable": "whether closed segments of a topic are copied to remote storage.",

    # Topics and their logs, for the whole broker
    "cordoned.log.dirs": "the log directories that no new partitions are put into; * means all.",
    "log.cleaner.io.buffer.size": "bytes of memory that compaction reads and writes records through.",
    "log.cleaner.threads": "how many threads compact logs.",
    "log.flush.offset.checkpoint.interval.ms":
        "how often the offsets up to which logs are on disk are written down, in ms.",
    "log.flush.start.offset.checkpoint.interval.ms":
        "how often the offsets at which logs begin are written down, in ms.",
    "log.initial.task.delay.ms": "how many ms after the start the chores of the logs begin.",
    "producer.id.expiration.check.interval.ms": "how often partitions look for idempotent producers to forget, in ms.",
    "unclean.leader.election.interval.ms":
        "how often the controller looks for partitions that an unclean election would help, in ms.",

    # Replication
    "alter.log.dirs.replication.quota.window.num":
        "over how many windows the rate of moves between log directories is averaged.",
    "alter.log.dirs.replication.quota.window.size.seconds":
        "how long each window is that measures moves between log directories, in s.",
    "auto.leader.rebalance.enable": "whether leadership returns to preferred replicas without an admin.",
    "controlled.shutdown.enable": "whether a broker hands over its leaderships before it stops.",
    "follower.replication.throttled.rate": "how many bytes a second throttled replicas of this broker may take in.",
    "leader.imbalance.check.interval.seconds":
        "how often partitions are looked for that their preferred replica does not lead, in s.",
    "leader.replication.throttled.rate": "how many bytes a second this broker may send to throttled replicas.",
    "num.replica.alter.log.dirs.threads":
        "how many threads move replicas between log directories; unset means one for each directory.",
    "num.replica.fetchers": "how many threads fetch from each other broker.",
    "replica.alter.log.dirs.io.max.bytes.per.second": "how many bytes a second moves between log directories may copy.",
    "replica.fetch.backoff.ms": "how many ms a follower waits after a failed fetch of a partition.",
    "replica.fetch.max.bytes": "how many bytes of one partition a follower asks for at once.",
    "replica.fetch.min.bytes": "how many bytes must be there before a follower's fetch is answered ahead of its time.",
    "replica.fetch.response.max.bytes": "how many bytes of all partitions a follower asks for at once.",
    "replica.fetch.wait.max.ms": "how many ms a follower's fetch may wait for records.",
    "replica.lag.time.max.ms": "a follower that has not caught up for this many ms is no longer in sync.",
    "replica.selector.class": "the class that chooses which replica a consumer reads from.",
    "replica.socket.receive.buffer.bytes": "bytes of the receive buffer of a follower's connection to its leader.",
    "replica.socket.timeout.ms": "how many ms a follower waits for its leader to answer.",
    "replication.quota.window.num": "over how many windows the rate of throttled replication is averaged.",
    "replication.quota.window.size.seconds": "how long each window is that measures throttled replication, in s.",

    # The quorum and its metadata log
    "broker.heartbeat.interval.ms": "how often a broker tells the controller that it lives, in ms.",
    "broker.session.timeout.ms": "after how many ms without a heartbeat the controller fences a broker.",
    "controller.performance.always.log.threshold.ms":
        "an event that keeps the controller for longer than this many ms is logged.",
    "controller.performance.sample.period.ms": "how often the controller logs how long its events take, in ms.",
    "controller.quorum.append.linger.ms":
        "how many ms the leader of the quorum collects records before it writes them to disk.",
    "controller.quorum.auto.join.enable": "whether a controller that finds a quorum makes itself a voter of it.",
    "controller.quorum.bootstrap.servers": "the addresses at which a node finds the quorum, as host:port.",
    "controller.quorum.election.backoff.max.ms": "the most ms a candidate waits before it stands for election again.",
    "controller.quorum.election.timeout.ms": "how many ms a candidate collects votes before it begins again.",
    "controller.quorum.fetch.max.bytes": "how many bytes of metadata records one fetch asks for.",
    "controller.quorum.fetch.snapshot.max.bytes": "how many bytes of a snapshot one fetch asks for.",
    "controller.quorum.fetch.timeout.ms":
        "after how many ms without a fetch that succeeds a follower stands for election, or a leader resigns.",
    "controller.quorum.request.timeout.ms": "how many ms a member of the quorum waits for an answer of another.",
    "controller.quorum.retry.backoff.ms": "how many ms pass before a failed request to the quorum is repeated.",
    "controller.quorum.voters": "the fixed voters of the quorum, as id@host:port.",
    "controller.quota.window.num": "over how many windows the rate of changes to topics is averaged.",
    "controller.quota.window.size.seconds": "how long each window is that measures changes to topics, in s.",
    "controller.socket.timeout.ms": "how many ms a broker waits for the controller to answer.",
    "initial.broker.registration.timeout.ms": "after how many ms a broker that the controller does not take in stops.",
    "internal.metadata.delete.delay.millis": "how many ms a deleted file of the metadata log stays on disk.",
    "internal.metadata.max.batch.size.in.bytes": "the largest batch of metadata records in bytes.",
    "metadata.log.dir": "the directory of the metadata log; unset means the first log directory.",
    "metadata.max.idle.interval.ms":
        "how often an idle controller writes a record that says nothing, in ms; 0 means never.",

    # Groups and their offsets
    "group.consumer.assignment.interval.ms":
        "how many ms lie at least between two assignments of a group of the consumer protocol; 0 means none.",
    "group.consumer.max.assignment.interval.ms":
        "the most that a group may set its `consumer.assignment.interval.ms` to.",
    "group.consumer.min.assignment.interval.ms":
        "the least that a group may set its `consumer.assignment.interval.ms` to.",
    "group.consumer.regex.refresh.interval.ms":
        "how often new topics are matched with the regular expressions of groups, in ms.",
    "group.coordinator.append.linger.ms":
        "how many ms the group coordinator collects records for a write; -1 means as the load asks for.",
    "group.coordinator.background.threads": "how many threads match regular expressions and compute assignments.",
    "group.coordinator.cached.buffer.max.bytes":
        "up to how many bytes a write buffer of the group coordinator is kept for the next write.",
    "group.coordinator.threads": "how many threads of the group coordinator work on groups.",
    "offsets.commit.timeout.ms": "how many ms a commit of offsets may take to be replicated.",
    "offsets.load.buffer.size": "how many bytes of `__consumer_offsets` are read at once when groups are loaded.",
    "offsets.topic.compression.codec": "the codec of `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",

    # Share groups and streams groups
    "group.share.assignment.interval.ms":
        "how many ms lie at least between two assignments of a share group; 0 means none.",
    "group.share.assignors": "the ways to share out partitions among members of share groups; the first one counts.",
    "group.share.delivery.count.limit": "how often a record is delivered before a share group gives it up.",
    "group.share.heartbeat.interval.ms": "how often members of a share group are told to send heartbeats, in ms.",
    "group.share.initialize.retry.interval.ms":
        "how many ms pass before a share group tries again to set up a partition's state.",
    "group.share.max.assignment.interval.ms":
        "the most that a share group may set its `share.assignment.interval.ms` to.",
    "group.share.max.delivery.count.limit": "the most that a share group may set its `share.delivery.count.limit` to.",
    "group.share.max.heartbeat.interval.ms":
        "the most that a share group may set its `share.heartbeat.interval.ms` to.",
    "group.share.max.partition.max.record.locks":
        "the most that a share group may set its `share.partition.max.record.locks` to.",
    "group.share.max.record.lock.duration.ms":
        "the most that a share group may set its `share.record.lock.duration.ms` to.",
    "group.share.max.session.timeout.ms": "the most that a share group may set its `share.session.timeout.ms` to.",
    "group.share.max.share.sessions": "how many sessions of share consumers a broker remembers.",
    "group.share.max.size": "how many members a share group may have.",
    "group.share.min.assignment.interval.ms":
        "the least that a share group may set its `share.assignment.interval.ms` to.",
    "group.share.min.delivery.count.limit": "the least that a share group may set its `share.delivery.count.limit` to.",
    "group.share.min.heartbeat.interval.ms":
        "the least that a share group may set its `share.heartbeat.interval.ms` to.",
    "group.share.min.partition.max.record.locks":
        "the least that a share group may set its `share.partition.max.record.locks` to.",
    "group.share.min.record.lock.duration.ms":
        "the least that a share group may set its `share.record.lock.duration.ms` to.",
    "group.share.min.session.timeout.ms": "the least that a share group may set its `share.session.timeout.ms` to.",
    "group.share.partition.max.record.locks":
        "how many records of a partition a share group may have out at consumers at once.",
    "group.share.persister.class.name": "the class that keeps the state of share groups.",
    "group.share.record.lock.duration.ms":
        "how many ms a consumer of a share group has a record to itself before others may get it.",
    "group.share.session.timeout.ms": "after how many ms without a heartbeat a member is put out of a share group.",
    "group.streams.assignment.interval.ms":
        "how many ms lie at least between two assignments of a streams group; 0 means none.",
    "group.streams.heartbeat.interval.ms": "how often members of a streams group are told to send heartbeats, in ms.",
    "group.streams.initial.rebalance.delay.ms":
        "how many ms an empty streams group waits for more members before it shares out tasks.",
    "group.streams.max.assignment.interval.ms":
        "the most that a streams group may set its `streams.assignment.interval.ms` to.",
    "group.streams.max.heartbeat.interval.ms":
        "the most that a streams group may set its `streams.heartbeat.interval.ms` to.",
    "group.streams.max.session.timeout.ms":
        "the most that a streams group may set its `streams.session.timeout.ms` to.",
    "group.streams.max.size": "how many members a streams group may have.",
    "group.streams.max.standby.replicas":
        "the most that a streams group may set its `streams.num.standby.replicas` to.",
    "group.streams.min.assignment.interval.ms":
        "the least that a streams group may set its `streams.assignment.interval.ms` to.",
    "group.streams.min.heartbeat.interval.ms":
        "the least that a streams group may set its `streams.heartbeat.interval.ms` to.",
    "group.streams.min.session.timeout.ms":
        "the least that a streams group may set its `streams.session.timeout.ms` to.",
    "group.streams.num.standby.replicas":
        "how many spare copies of each task's state a streams group keeps; 0 means none.",
    "group.streams.session.timeout.ms": "after how many ms without a heartbeat a member is put out of a streams group.",
    "share.auto.offset.reset":
        "where a share group begins in a partition that is new to it: earliest, latest, or a duration ago.",
    "share.isolation.level": "whether a share group reads only what transactions have committed, or everything.",
    "share.renew.acknowledge.enable": "whether consumers of a share group may ask for more time with a record.",

    # The share coordinator
    "share.coordinator.append.linger.ms":
        "how many ms the share coordinator collects records for a write; -1 means as the load asks for.",
    "share.coordinator.cached.buffer.max.bytes":
        "up to how many bytes a write buffer of the share coordinator is kept for the next write.",
    "share.coordinator.cold.partition.snapshot.interval.ms":
        "how often the state of a partition that nobody reads is written anew, in ms.",
    "share.coordinator.load.buffer.size": "how many bytes of `__share_group_state` are read at once when it is loaded.",
    "share.coordinator.snapshot.update.records.per.snapshot":
        "after how many updates the state of a share partition is written whole.",
    "share.coordinator.state.topic.compression.codec":
        "the codec of `__share_group_state`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "share.coordinator.state.topic.min.isr": "the `min.insync.replicas` that `__share_group_state` is created with.",
    "share.coordinator.state.topic.num.partitions": "how many partitions `__share_group_state` is created with.",
    "share.coordinator.state.topic.prune.interval.ms":
        "how often `__share_group_state` loses records that newer ones replace, in ms.",
    "share.coordinator.state.topic.replication.factor": "how many replicas `__share_group_state` is created with.",
    "share.coordinator.state.topic.segment.bytes": "the segment size in bytes of `__share_group_state`.",
    "share.coordinator.threads": "how many threads of the share coordinator work.",
    "share.coordinator.write.timeout.ms": "how many ms a write of the share coordinator may take to be replicated.",

    # Transactions
    "add.partitions.to.txn.retry.backoff.ms":
        "how many ms pass between two looks whether the transaction before has ended.",
    "transaction.state.log.load.buffer.size":
        "how many bytes of `__transaction_state` are read at once when it is loaded.",
    "transaction.two.phase.commit.enable":
        "whether producers may have transactions that only they themselves end, with no timeout.",

    # Security
    "connections.max.reauth.ms":
        "the most ms a login over SASL holds before its client has to log in again; 0 means for good.",
    "delegation.token.expiry.check.interval.ms": "how often delegation tokens that have expired are looked for, in ms.",
    "delegation.token.expiry.time.ms": "how many ms a delegation token holds before it has to be renewed.",
    "delegation.token.max.lifetime.ms": "after how many ms a delegation token can be renewed no more.",
    "delegation.token.secret.key":
        "the secret that delegation tokens are made with, equal on all nodes; unset means no tokens.",
    "sasl.client.callback.handler.class": "the class that gives the broker's own SASL logins their credentials.",
    "sasl.enabled.mechanisms": "the SASL mechanisms that clients may log in by.",
    "sasl.jaas.config":
        "the login modules of SASL with their options, as in a JAAS file; set for one listener and mechanism.",
    "sasl.kerberos.kinit.cmd": "the path of kinit, which renews Kerberos tickets.",
    "sasl.kerberos.min.time.before.relogin": "how many ms lie at least between two renewals of a Kerberos ticket.",
    "sasl.kerberos.principal.to.local.rules":
        "the rules that make a user's name from a Kerberos principal; the first that fits counts.",
    "sasl.kerberos.service.name": "the name of the service in the broker's Kerberos principal.",
    "sasl.kerberos.ticket.renew.jitter": "what share of the time until a Kerberos renewal is left to chance.",
    "sasl.kerberos.ticket.renew.window.factor": "after what share of a Kerberos ticket's life it is renewed.",
    "sasl.login.callback.handler.class": "the class that the broker's own login asks for credentials.",
    "sasl.login.class": "the class that performs and renews the broker's own login.",
    "sasl.login.connect.timeout.ms": "how many ms a connection to a provider of OAuth tokens may take to make.",
    "sasl.login.read.timeout.ms": "how many ms a provider of OAuth tokens may take to answer.",
    "sasl.login.refresh.buffer.seconds":
        "how many s before its OAuth token expires the broker has a new one, if it can.",
    "sasl.login.refresh.min.period.seconds":
        "for how many s at least the broker keeps an OAuth token before it gets a new one.",
    "sasl.login.refresh.window.factor": "after what share of an OAuth token's life the broker gets a new one.",
    "sasl.login.refresh.window.jitter":
        "what share of an OAuth token's life chance may add to the time of its renewal.",
    "sasl.login.retry.backoff.max.ms": "the most ms between two tries to get an OAuth token.",
    "sasl.login.retry.backoff.ms":
        "how many ms pass before the first new try to get an OAuth token; later ones wait longer.",
    "sasl.mechanism.controller.protocol": "the SASL mechanism of connections to controllers.",
    "sasl.mechanism.inter.broker.protocol": "the SASL mechanism of connections between brokers.",
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
        "the most ms between two tries to load the keys that verify OAuth tokens.",
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
    "sasl.server.max.receive.size": "the most bytes that a client may send in one step of a SASL login.",
    "security.inter.broker.protocol":
        "the security protocol between brokers, where `inter.broker.listener.name` is unset.",
    "security.providers": "classes that add security algorithms to Java.",
    "ssl.allow.dn.changes": "whether a new keystore may have a certificate of another distinguished name.",
    "ssl.allow.san.changes":
        "whether a new keystore may have a certificate that lacks alternative names of the old one.",
    "ssl.cipher.suites": "the ciphers of TLS that may be agreed on; empty means those of Java.",
    "ssl.client.auth": "whether clients show a certificate over TLS: required, requested or none.",
    "ssl.enabled.protocols": "the versions of TLS that may be agreed on.",
    "ssl.endpoint.identification.algorithm":
        "how a certificate is held against the host's name; empty means not at all.",
    "ssl.engine.factory.class": "the class that makes the engines of TLS.",
    "ssl.key.password": "the password of the private key for TLS.",
    "ssl.keymanager.algorithm": "the algorithm of Java's key manager for TLS.",
    "ssl.keystore.certificate.chain": "the certificate that the broker shows, with those above it, as PEM text.",
    "ssl.keystore.key": "the private key for TLS, as PEM text.",
    "ssl.keystore.location": "the file of the private key and its certificates for TLS.",
    "ssl.keystore.password": "the password of the keystore's file.",
    "ssl.keystore.type": "the format of the keystore: JKS, PKCS12 or PEM.",
    "ssl.principal.mapping.rules":
        "the rules that make a user's name from a certificate's distinguished name; the first that fits counts.",
    "ssl.protocol": "the kind of TLS context that Java makes connections from.",
    "ssl.provider": "the Java provider of TLS; unset means that of Java itself.",
    "ssl.secure.random.implementation":
        "the Java generator of random numbers for TLS; unset means that of Java itself.",
    "ssl.trustmanager.algorithm": "the algorithm of Java's trust manager for TLS.",
    "ssl.truststore.certificates": "the certificates that are trusted, as PEM text.",
    "ssl.truststore.location": "the file of the certificates that are trusted.",
    "ssl.truststore.password": "the password of the truststore's file.",
    "ssl.truststore.type": "the format of the truststore: JKS, PKCS12 or PEM.",

    # Tiered storage
    "follower.fetch.last.tiered.offset.enable":
        "whether a new follower begins after what is in remote storage, not at the log's start.",
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
        "how often partitions are looked over for what to copy or delete remotely, in ms.",
    "remote.log.manager.task.retry.backoff.max.ms": "the most ms between two tries of a failed remote task.",
    "remote.log.manager.task.retry.backoff.ms": "how many ms pass before the first new try of a failed remote task.",
    "remote.log.manager.task.retry.jitter":
        "what share of the time before a new try of a remote task is left to chance.",
    "remote.log.manager.thread.pool.size": "how many threads schedule the work of tiered storage.",
    "remote.log.metadata.custom.metadata.max.bytes": "how many bytes a storage plugin may note with each segment.",
    "remote.log.metadata.manager.class.name": "the class that remembers which segments are in remote storage.",
    "remote.log.metadata.manager.class.path":
        "where the class that remembers remote segments is loaded from; unset means Kafka's own path.",
    "remote.log.metadata.manager.impl.prefix":
        "configs that begin with this go to the class that remembers remote segments.",
    "remote.log.metadata.manager.listener.name":
        "the listener over which the class that remembers remote segments reaches brokers.",
    "remote.log.reader.max.pending.tasks": "how many reads from remote storage may wait; more are refused.",
    "remote.log.reader.threads": "how many threads read from remote storage.",
    "remote.log.storage.manager.class.name": "the class that stores segments remotely.",
    "remote.log.storage.manager.class.path":
        "where the class that stores segments remotely is loaded from; unset means Kafka's own path.",
    "remote.log.storage.manager.impl.prefix":
        "configs that begin with this go to the class that stores segments remotely.",
    "remote.log.storage.system.enable": "whether the broker has tiered storage, which topics may then use.",

    # Quotas, metrics and the rest
    "config.providers":
        "names of classes that look up values such as ${name:path:key} in configs, from files for example.",
    "kafka.metrics.polling.interval.secs": "how often reporters of the older kind collect metrics, in s.",
    "kafka.metrics.reporters": "classes of the older kind that report metrics.",
    "metric.reporters": "the classes that report metrics.",
    "metrics.num.samples": "over how many samples a metric such as a rate is computed.",
    "metrics.recording.level": "down to which level metrics are recorded: INFO, DEBUG or TRACE.",
    "metrics.sample.window.ms": "how many ms each sample of a metric covers.",
    "quota.window.num": "over how many windows the rate of a client is averaged for its quota.",
    "quota.window.size.seconds": "how long each window is that measures a client for its quota, in s.",
    "connection_creation_rate": "how many new connections a second an address may make.",
    "consumer_byte_rate": "how many bytes a second a client may fetch from a broker before it is slowed down.",
    "controller_mutation_rate": "how many partitions a second a client may create or delete before it is slowed down.",
    "producer_byte_rate": "how many bytes a second a client may produce to a broker before it is slowed down.",
    "request_percentage": "what percentage of a thread's time a client's requests may take before it is slowed down.",
}
"""Configs that have no effect in this broker, with their effect in Kafka."""

NO_EFFECT = "Has no effect here. In Kafka: "
DOCS = {**OBEYED, **{name: NO_EFFECT + text for name, text in IDLE.items()}}
DOCS.update({under[0]: DOCS[name] for name, under in TOPIC_SYNONYMS.items()})
DOCS.update({name: DOCS[under] for name, under in GROUP_SYNONYMS.items() if name not in DOCS})
"""By name, of topics, brokers, groups and all others."""
# fmt: on


def documentation(name: str) -> str:
    """Return the description of a config, with or without a listener prefix; "" for an unknown config."""
    base = name.split(".", 3)[-1] if name.startswith(LISTENER_PREFIX) else name
    return DOCS.get(base, "")
