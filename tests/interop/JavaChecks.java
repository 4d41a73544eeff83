import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.BrokerIdNotRegisteredException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.InvalidUpdateVersionException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.ResourceNotFoundException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.errors.UnacceptableCredentialException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Checks a broker with Apache Kafka's own clients: prints "ok NAME" or "not ok NAME: reason" for each check.
 * The last checks run beside the others, on a second broker, which is killed and restarted when they print "kill".
 */
public class JavaChecks {
    static final Duration PATIENCE = Duration.ofSeconds(30);
    /** The address of the broker that the checks of a thread and of the threads that they start use. */
    static final InheritableThreadLocal<String> bootstrap = new InheritableThreadLocal<>();
    static final InheritableThreadLocal<Admin> admins = new InheritableThreadLocal<>();

    interface Body {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws InterruptedException {
        var crashing = new Thread(() -> onBroker(arguments[1], JavaChecks::crashes));
        crashing.start();
        onBroker(arguments[0], JavaChecks::calm);
        crashing.join();
    }

    static void onBroker(String address, Runnable checks) {
        bootstrap.set(address);
        var admin = Admin.create(settings(Map.of()));
        admins.set(admin);
        checks.run();
        admin.close(Duration.ofSeconds(1));
    }

    static Admin admin() {
        return admins.get();
    }

    static void calm() {
        topics();
        cluster();
        configs();
        features();
        quotas();
        credentials();
        offsets();
        producing();
        consuming();
        groups();
        transactions();
    }

    static void topics() {
        check("create returns the created topics", () -> {
            var name = unused();
            var made = admin().createTopics(List.of(new NewTopic(name, 3, (short) 1).configs(Map.of("retention.ms", "5000"))));
            same(3, made.numPartitions(name).get());
            same(1, made.replicationFactor(name).get());
            same("5000", made.config(name).get().get("retention.ms").value());
            same("delete", made.config(name).get().get("cleanup.policy").value());
            same(false, made.topicId(name).get().equals(Uuid.ZERO_UUID));
        });
        check("create uses the defaults of the broker", () -> {
            var name = unused();
            var made = admin().createTopics(List.of(new NewTopic(name, Optional.empty(), Optional.empty())));
            same(1, made.numPartitions(name).get());
            same(1, made.replicationFactor(name).get());
        });
        check("create uses a replica assignment", () -> {
            var node = admin().describeCluster().nodes().get().iterator().next().id();
            var name = unused();
            admin().createTopics(List.of(new NewTopic(name, Map.of(0, List.of(node), 1, List.of(node))))).all().get();
            same(2, eventually(() -> describe(name)).partitions().size());
        });
        check("create with validateOnly creates no topic", () -> {
            var name = unused();
            var options = new CreateTopicsOptions().validateOnly(true);
            same(2, admin().createTopics(List.of(new NewTopic(name, 2, (short) 1)), options).numPartitions(name).get());
            same(false, admin().listTopics().names().get().contains(name));
        });
        check("create refuses an existing topic", () -> {
            var name = topic(1);
            refused(TopicExistsException.class, create(name, 1, 1));
        });
        check("create refuses an invalid name", () -> refused(InvalidTopicException.class, create("a/b", 1, 1)));
        check("create refuses a name that is too long", () ->
            refused(InvalidTopicException.class, create("x".repeat(250), 1, 1)));
        check("create refuses zero partitions", () -> refused(InvalidPartitionsException.class, create(unused(), 0, 1)));
        check("create refuses more replicas than brokers", () ->
            refused(InvalidReplicationFactorException.class, create(unused(), 1, 2)));
        check("create refuses an unknown config", () -> refused(InvalidConfigurationException.class,
            admin().createTopics(List.of(new NewTopic(unused(), 1, (short) 1).configs(Map.of("no.such", "1")))).all()));
        check("one refused topic does not affect the others", () -> {
            var good = unused();
            var made = admin().createTopics(List.of(new NewTopic(good, 1, (short) 1), new NewTopic("a/b", 1, (short) 1)));
            made.values().get(good).get();
            refused(InvalidTopicException.class, made.values().get("a/b"));
        });
        check("describe finds topics by name and by id", () -> {
            var name = topic(2);
            var byName = describe(name);
            var id = byName.topicId();
            var byId = admin().describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().get(id).get();
            same(byName.topicId(), byId.topicId());
            same(false, byName.isInternal());
            for (var partition : byName.partitions()) {
                same(List.of(partition.leader()), partition.replicas());
                same(List.of(partition.leader()), partition.isr());
                same(true, bootstrap.get().endsWith(":" + partition.leader().port()));
            }
            same(List.of(0, 1), byName.partitions().stream().map(partition -> partition.partition()).toList());
        });
        check("describe refuses an unknown name", () ->
            refused(UnknownTopicOrPartitionException.class, admin().describeTopics(List.of(unused())).allTopicNames()));
        check("describe refuses an unknown id", () -> refused(UnknownTopicIdException.class,
            admin().describeTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds()));
        check("list returns all topics and their ids", () -> {
            var name = topic(1);
            var listing = admin().listTopics().namesToListings().get().get(name);
            same(describe(name).topicId(), listing.topicId());
        });
        check("delete removes a topic by name", () -> {
            var name = topic(1);
            admin().deleteTopics(List.of(name)).all().get();
            eventually(() -> refused(UnknownTopicOrPartitionException.class, admin().describeTopics(List.of(name)).allTopicNames()));
        });
        check("delete removes a topic by id", () -> {
            var name = topic(1);
            admin().deleteTopics(TopicCollection.ofTopicIds(List.of(describe(name).topicId()))).all().get();
            eventually(() -> same(false, admin().listTopics().names().get().contains(name)));
        });
        check("delete refuses an unknown name", () ->
            refused(UnknownTopicOrPartitionException.class, admin().deleteTopics(List.of(unused())).all()));
        check("delete refuses an unknown id", () -> refused(UnknownTopicIdException.class,
            admin().deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).all()));
    }

    static void cluster() {
        check("the cluster is described", () -> {
            var cluster = admin().describeCluster();
            same(1, cluster.nodes().get().size());
            var node = cluster.nodes().get().iterator().next();
            same(bootstrap.get(), node.host() + ":" + node.port());
            same(node.id(), cluster.controller().get().id());
            same(22, cluster.clusterId().get().length());
        });
    }

    static void configs() {
        check("a topic's config is set, described and unset", () -> {
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, topic(1));
            same("604800000 DEFAULT_CONFIG", told(topic, "retention.ms"));
            alter(topic, OpType.SET, "retention.ms", "5000");
            eventually(() -> same("5000 DYNAMIC_TOPIC_CONFIG", told(topic, "retention.ms")));
            alter(topic, OpType.DELETE, "retention.ms", null);
            eventually(() -> same("604800000 DEFAULT_CONFIG", told(topic, "retention.ms")));
        });
        check("a list is appended to and subtracted from", () -> {
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, topic(1));
            alter(topic, OpType.APPEND, "cleanup.policy", "compact");
            eventually(() -> same("delete,compact DYNAMIC_TOPIC_CONFIG", told(topic, "cleanup.policy")));
            alter(topic, OpType.SUBTRACT, "cleanup.policy", "delete");
            eventually(() -> same("compact DYNAMIC_TOPIC_CONFIG", told(topic, "cleanup.policy")));
        });
        check("a changed config takes effect", () -> {
            var place = new TopicPartition(topic(1), 0);
            alter(new ConfigResource(ConfigResource.Type.TOPIC, place.topic()), OpType.SET, "max.message.bytes", "200");
            eventually(() -> refused(RecordTooLargeException.class, () -> {
                try (var producer = producer(Map.of())) {
                    producer.send(new ProducerRecord<byte[], byte[]>(place.topic(), 0, null, noise(500))).get();
                }
            }));
        });
        check("a change with validateOnly changes nothing", () -> {
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, topic(1));
            var change = List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), OpType.SET));
            var validate = new AlterConfigsOptions().validateOnly(true);
            admin().incrementalAlterConfigs(Map.of(topic, change), validate).all().get();
            same("604800000 DEFAULT_CONFIG", told(topic, "retention.ms"));
        });
        check("a refused change does not affect the others", () -> {
            var good = new ConfigResource(ConfigResource.Type.TOPIC, topic(1));
            var absent = new ConfigResource(ConfigResource.Type.TOPIC, unused());
            var bad = new ConfigResource(ConfigResource.Type.TOPIC, topic(1));
            var set = new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), OpType.SET);
            var wrong = new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), OpType.SET);
            var done = admin().incrementalAlterConfigs(Map.of(good, List.of(set), absent, List.of(set), bad, List.of(wrong)));
            done.values().get(good).get();
            refused(UnknownTopicOrPartitionException.class, done.values().get(absent));
            refused(InvalidConfigurationException.class, done.values().get(bad));
        });
        check("configs of one broker and of all brokers are changed", () -> {
            var own = new ConfigResource(ConfigResource.Type.BROKER, "" + node());
            var every = new ConfigResource(ConfigResource.Type.BROKER, "");
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, topic(1));
            alter(every, OpType.SET, "log.roll.jitter.ms", "7000");
            eventually(() -> same("7000 DYNAMIC_DEFAULT_BROKER_CONFIG", told(topic, "segment.jitter.ms")));
            alter(own, OpType.SET, "log.roll.jitter.ms", "8000");
            eventually(() -> same("8000 DYNAMIC_BROKER_CONFIG", told(topic, "segment.jitter.ms")));
            alter(own, OpType.DELETE, "log.roll.jitter.ms", null);
            alter(every, OpType.DELETE, "log.roll.jitter.ms", null);
            eventually(() -> same("0 DEFAULT_CONFIG", told(topic, "segment.jitter.ms")));
        });
        check("a read-only config of a broker is refused", () -> refused(InvalidRequestException.class, () ->
            alter(new ConfigResource(ConfigResource.Type.BROKER, "" + node()), OpType.SET, "num.partitions", "7")));
        check("configs of a group and of client metrics are changed", () -> {
            var group = new ConfigResource(ConfigResource.Type.GROUP, unused());
            alter(group, OpType.SET, "consumer.session.timeout.ms", "50000");
            eventually(() -> same("50000 DYNAMIC_GROUP_CONFIG", told(group, "consumer.session.timeout.ms")));
            var metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, unused());
            alter(metrics, OpType.SET, "interval.ms", "1000");
            eventually(() -> same("1000 DYNAMIC_CLIENT_METRICS_CONFIG", told(metrics, "interval.ms")));
            eventually(() -> same(true, admin().listConfigResources().all().get().containsAll(List.of(group, metrics))));
        });
    }

    static void features() {
        check("a feature level is lowered and raised again", () -> {
            for (var to : List.of(new FeatureUpdate((short) 0, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE),
                    new FeatureUpdate((short) 2, FeatureUpdate.UpgradeType.UPGRADE))) {
                admin().updateFeatures(Map.of("transaction.version", to), new UpdateFeaturesOptions()).all().get();
                eventually(() -> {
                    var now = admin().describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version");
                    same(to.maxVersionLevel(), now == null ? (short) 0 : now.maxVersionLevel());
                });
            }
        });
        check("an unsupported feature level is refused", () -> refused(InvalidUpdateVersionException.class,
            admin().updateFeatures(Map.of("group.version", new FeatureUpdate((short) 9, FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions()).all()));
        check("an unknown broker cannot be unregistered", () ->
            refused(BrokerIdNotRegisteredException.class, admin().unregisterBroker(7777).all()));
    }

    static void quotas() {
        check("a client quota is set, found and removed", () -> {
            var user = unused();
            var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user, ClientQuotaEntity.CLIENT_ID, "c"));
            var filter = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", user)));
            quota(entity, 5000.0);
            eventually(() -> same(Map.of(entity, Map.of("producer_byte_rate", 5000.0)),
                admin().describeClientQuotas(filter).entities().get()));
            quota(entity, null);
            eventually(() -> same(Map.of(), admin().describeClientQuotas(filter).entities().get()));
        });
        check("a client quota below zero is refused", () -> refused(InvalidRequestException.class, () ->
            quota(new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, unused())), -1.0)));
    }

    static void credentials() {
        check("a SCRAM credential is set, described and deleted", () -> {
            var user = unused();
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096);
            admin().alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, "secret"))).all().get();
            eventually(() -> same(List.of(info),
                admin().describeUserScramCredentials(List.of(user)).description(user).get().credentialInfos()));
            admin().alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, info.mechanism()))).all().get();
            eventually(() -> refused(ResourceNotFoundException.class,
                admin().describeUserScramCredentials(List.of(user)).description(user)));
        });
        check("a SCRAM credential with too few iterations is refused", () -> refused(UnacceptableCredentialException.class,
            admin().alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
                unused(), new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4095), "secret"))).all()));
    }

    static void offsets() {
        check("list offsets answers every kind of offset", () -> {
            var place = new TopicPartition(topic(1), 0);
            send(place, Map.of(), 10);
            same(0L, offset(place, OffsetSpec.earliest()));
            same(10L, offset(place, OffsetSpec.latest()));
            same(9L, offset(place, OffsetSpec.maxTimestamp()));
            same(0L, offset(place, OffsetSpec.earliestLocal()));
            same(3L, offset(place, OffsetSpec.forTimestamp(now - 10_000 + 3)));
            same(-1L, offset(place, OffsetSpec.forTimestamp(now + 60_000)));
            same(-1L, offset(place, OffsetSpec.latestTiered()));
        });
        check("list offsets answers for an empty partition", () -> {
            var place = new TopicPartition(topic(1), 0);
            same(0L, offset(place, OffsetSpec.latest()));
            same(-1L, offset(place, OffsetSpec.maxTimestamp()));
            same(-1L, offset(place, OffsetSpec.forTimestamp(0)));
        });
    }

    static void producing() {
        for (var codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            check("idempotent producer, " + codec, () -> {
                var place = new TopicPartition(topic(1), 0);
                var sent = send(place, Map.of("compression.type", codec, "linger.ms", "5"), 500);
                for (var index = 0; index < 500; index++) same((long) index, sent.get(index).offset());
                same(500, read(place, 500, Map.of()).size());
            });
        }
        for (var acks : List.of("0", "1", "all")) {
            check("producer without idempotence, acks=" + acks, () -> {
                var place = new TopicPartition(topic(1), 0);
                send(place, Map.of("enable.idempotence", "false", "acks", acks), 100);
                same(100, read(place, 100, Map.of()).size());
            });
        }
        check("keys, values, headers and timestamps are read unchanged", () -> {
            var place = new TopicPartition(topic(1), 0);
            try (var producer = producer(Map.of())) {
                var full = new ProducerRecord<>(place.topic(), 0, now, bytes("key"), bytes("value"));
                full.headers().add("a", bytes("1")).add("a", null).add("", new byte[0]);
                producer.send(full).get();
                producer.send(new ProducerRecord<byte[], byte[]>(place.topic(), 0, now + 1, null, null)).get();
            }
            var got = read(place, 2, Map.of());
            same("key", new String(got.get(0).key()));
            same("value", new String(got.get(0).value()));
            same(now, got.get(0).timestamp());
            same(TimestampType.CREATE_TIME, got.get(0).timestampType());
            var headers = new ArrayList<String>();
            for (Header header : got.get(0).headers()) {
                headers.add(header.key() + "=" + (header.value() == null ? null : new String(header.value())));
            }
            same(List.of("a=1", "a=null", "="), headers);
            same(null, got.get(1).key());
            same(null, got.get(1).value());
        });
        check("a record of a megabyte is accepted and a larger one is refused", () -> {
            var place = new TopicPartition(topic(1), 0);
            try (var producer = producer(Map.of("max.request.size", "10000000"))) {
                producer.send(new ProducerRecord<>(place.topic(), 0, null, noise(1_000_000))).get();
                refused(RecordTooLargeException.class,
                    producer.send(new ProducerRecord<>(place.topic(), 0, null, noise(2_000_000))));
            }
            same(1_000_000, read(place, 1, Map.of()).get(0).value().length);
        });
        check("a topic is auto-created by its first record", () -> {
            var place = new TopicPartition(unused(), 0);
            send(place, Map.of(), 3);
            same(3, read(place, 3, Map.of()).size());
        });
        check("a producer continues after its topic was recreated", () -> {
            var name = topic(1);
            try (var producer = producer(Map.of())) {
                same(0L, producer.send(new ProducerRecord<>(name, 0, null, bytes("first"))).get().offset());
                admin().deleteTopics(List.of(name)).all().get();
                eventually(() -> same(false, admin().listTopics().names().get().contains(name)));
                create(name, 1, 1).get();
                same(0L, producer.send(new ProducerRecord<>(name, 0, null, bytes("second"))).get().offset());
            }
        });
    }

    static void consuming() {
        check("a consumer lists partitions and offsets", () -> {
            var name = topic(2);
            var place = new TopicPartition(name, 1);
            send(place, Map.of(), 10);
            try (var consumer = consumer(Map.of())) {
                same(2, consumer.partitionsFor(name).size());
                same(true, consumer.listTopics().containsKey(name));
                same(Map.of(place, 0L), consumer.beginningOffsets(Set.of(place)));
                same(Map.of(place, 10L), consumer.endOffsets(Set.of(place)));
                same(7L, consumer.offsetsForTimes(Map.of(place, now - 10_000 + 7)).get(place).offset());
                same(null, consumer.offsetsForTimes(Map.of(place, now + 60_000)).get(place));
            }
        });
        check("a consumer seeks to offsets", () -> {
            var place = new TopicPartition(topic(1), 0);
            send(place, Map.of("compression.type", "lz4", "linger.ms", "50"), 100);
            try (var consumer = consumer(Map.of())) {
                consumer.assign(Set.of(place));
                for (var offset : List.of(42L, 99L, 0L)) {
                    consumer.seek(place, offset);
                    same(offset, poll(consumer, 1).get(0).offset());
                }
                consumer.seekToEnd(Set.of(place));
                same(100L, consumer.position(place));
            }
        });
        check("read_committed reads records outside of transactions", () -> {
            var place = new TopicPartition(topic(1), 0);
            send(place, Map.of(), 10);
            same(10, read(place, 10, Map.of("isolation.level", "read_committed")).size());
        });
        check("an offset out of range is reported", () -> {
            var place = new TopicPartition(topic(1), 0);
            try (var consumer = consumer(Map.of("auto.offset.reset", "none"))) {
                consumer.assign(Set.of(place));
                consumer.seek(place, 1000);
                refused(OffsetOutOfRangeException.class, () -> poll(consumer, 1));
            }
        });
        check("a consumer without auto-creation creates no topic", () -> {
            var name = unused();
            try (var consumer = consumer(Map.of("allow.auto.create.topics", "false"))) {
                consumer.assign(Set.of(new TopicPartition(name, 0)));
                consumer.poll(Duration.ofMillis(300));
            }
            same(false, admin().listTopics().names().get().contains(name));
        });
        check("a small fetch returns a large batch whole", () -> {
            var place = new TopicPartition(topic(1), 0);
            send(place, Map.of("linger.ms", "50", "batch.size", "100000"), 500);
            var limits = Map.of("fetch.max.bytes", "100", "max.partition.fetch.bytes", "100");
            same(500, read(place, 500, limits).size());
        });
        check("one fetch session has many partitions", () -> {
            var name = topic(20);
            for (var partition = 0; partition < 20; partition++) send(new TopicPartition(name, partition), Map.of(), 5);
            try (var consumer = consumer(Map.of())) {
                consumer.assign(admin().describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().stream()
                    .map(partition -> new TopicPartition(name, partition.partition())).toList());
                consumer.seekToBeginning(consumer.assignment());
                same(100, poll(consumer, 100).size());
                send(new TopicPartition(name, 13), Map.of(), 1);
                same(13, poll(consumer, 1).get(0).partition());
            }
        });
        check("an append completes a waiting fetch", () -> {
            var place = new TopicPartition(topic(1), 0);
            var consumer = consumer(Map.of("fetch.max.wait.ms", "60000", "request.timeout.ms", "90000"));
            try {
                consumer.assign(Set.of(place));
                consumer.seek(place, 0);
                consumer.poll(Duration.ofMillis(300));
                send(place, Map.of(), 1);
                same(1, poll(consumer, 1).size());
            } finally {
                consumer.close(CloseOptions.timeout(Duration.ZERO)); // otherwise close waits for the next waiting fetch
            }
        });
    }

    // ---- helpers of the checks

    static final long now = System.currentTimeMillis();

    static void groups() {
        check("a group reads, commits and continues", () -> {
            var place = new TopicPartition(topic(1), 0);
            var group = unused();
            send(place, Map.of(), 10);
            try (var consumer = member(group, place.topic(), Map.of())) {
                poll(consumer, 10);
                consumer.commitSync(Map.of(place, new OffsetAndMetadata(7, Optional.of(0), "so far")));
            }
            try (var consumer = member(group, place.topic(), Map.of())) {
                same(7L, poll(consumer, 3).get(0).offset());
                var committed = consumer.committed(Set.of(place)).get(place);
                same(new OffsetAndMetadata(7, Optional.of(0), "so far"), committed);
            }
        });
        for (var assignor : List.of("RangeAssignor", "CooperativeStickyAssignor")) {
            check("members share partitions and take over from a closed one, " + assignor, () -> {
                var name = topic(4);
                var group = unused();
                var strategy = Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
                try (var stays = member(group, name, strategy)) {
                    try (var goes = member(group, name, strategy)) {
                        settled(4, stays, goes);
                        same(2, goes.assignment().size());
                    }
                    settled(4, stays);
                }
            });
        }
        check("members of the consumer protocol share partitions and take over", () -> {
            var name = topic(4);
            var group = unused();
            try (var stays = newMember(group, name)) {
                settled(4, stays);
                try (var goes = newMember(group, name)) {
                    settled(4, stays, goes);
                    same(2, goes.assignment().size());
                    var described = admin().describeConsumerGroups(List.of(group)).all().get().get(group);
                    same(GroupType.CONSUMER, described.type());
                    same(2, described.members().size());
                }
                settled(4, stays);
                stays.commitSync(Map.of(new TopicPartition(name, 0), new OffsetAndMetadata(3)));
            }
            try (var again = consumer(Map.of("group.id", group, "group.protocol", "consumer"))) {
                again.subscribe(new SubscriptionPattern(name.substring(0, 20) + ".*"));
                settled(4, again);
                same(3L, again.committed(Set.of(new TopicPartition(name, 0))).get(new TopicPartition(name, 0)).offset());
            }
        });
        check("a group migrates to the consumer protocol and back while a member stays", () -> {
            var name = topic(4);
            var group = unused();
            try (var stays = member(group, name, Map.of())) {
                settled(4, stays);
                try (var comes = newMember(group, name)) {
                    settled(4, stays, comes);
                    var described = admin().describeConsumerGroups(List.of(group)).all().get().get(group);
                    same(GroupType.CONSUMER, described.type());
                    same(Set.of(Optional.of(true), Optional.of(false)),
                        Set.copyOf(described.members().stream().map(one -> one.upgraded()).toList()));
                    stays.commitSync(Map.of(stays.assignment().iterator().next(), new OffsetAndMetadata(3)));
                }
                settled(4, stays);
                same(GroupType.CLASSIC, admin().describeConsumerGroups(List.of(group)).all().get().get(group).type());
            }
        });
        check("a static member returns without a rebalance", () -> {
            var name = topic(2);
            var group = unused();
            var instance = Map.of("group.instance.id", "one");
            try (var other = member(group, name, Map.of("group.instance.id", "other"))) {
                var first = member(group, name, instance);
                settled(2, other, first);
                var generation = other.groupMetadata().generationId();
                first.close(CloseOptions.timeout(PATIENCE));
                try (var second = member(group, name, instance)) {
                    settled(2, other, second);
                    same(generation, second.groupMetadata().generationId());
                }
            }
        });
        check("groups are listed and described", () -> {
            var name = topic(1);
            var group = unused();
            try (var consumer = member(group, name, Map.of("client.id", "me"))) {
                settled(1, consumer);
                var described = admin().describeConsumerGroups(List.of(group)).all().get().get(group);
                same(GroupState.STABLE, described.groupState());
                same("range", described.partitionAssignor());
                var member = described.members().iterator().next();
                same(List.of("me", "/127.0.0.1"), List.of(member.clientId(), member.host()));
                same(Set.of(new TopicPartition(name, 0)), member.assignment().topicPartitions());
                var stable = new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE))
                    .withTypes(Set.of(GroupType.CLASSIC));
                same(1L, admin().listGroups(stable).all().get().stream()
                    .filter(one -> one.groupId().equals(group)).count());
                refused(GroupNotEmptyException.class, admin().deleteConsumerGroups(List.of(group)).all());
                var gone = admin().removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions());
                gone.all().get();
            }
            same(GroupState.EMPTY, admin().describeConsumerGroups(List.of(group)).all().get().get(group).groupState());
            admin().deleteConsumerGroups(List.of(group)).all().get();
            refused(GroupIdNotFoundException.class, admin().describeConsumerGroups(List.of(group)).all());
            refused(GroupIdNotFoundException.class, admin().deleteConsumerGroups(List.of(group)).all());
        });
        check("offsets of a group are altered, listed and deleted", () -> {
            var name = topic(2);
            var group = unused();
            var place = new TopicPartition(name, 0);
            var other = new TopicPartition(name, 1);
            admin().alterConsumerGroupOffsets(group, Map.of(
                place, new OffsetAndMetadata(3, Optional.empty(), "three"), other, new OffsetAndMetadata(4))).all().get();
            var told = admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            same(Map.of(place, new OffsetAndMetadata(3, Optional.empty(), "three"), other, new OffsetAndMetadata(4)), told);
            admin().deleteConsumerGroupOffsets(group, Set.of(place)).all().get();
            told = admin().listConsumerGroupOffsets(Map.of(
                group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(place, other))))
                .partitionsToOffsetAndMetadata(group).get();
            same(null, told.get(place));
            same(4L, told.get(other).offset());
            try (var consumer = member(group, name, Map.of())) {
                settled(2, consumer);
                refused(UnknownMemberIdException.class,
                    admin().alterConsumerGroupOffsets(group, Map.of(place, new OffsetAndMetadata(1))).all());
                refused(GroupSubscribedToTopicException.class,
                    admin().deleteConsumerGroupOffsets(group, Set.of(other)).all());
            }
        });
    }

    static KafkaConsumer<byte[], byte[]> member(String group, String name, Map<String, String> more) {
        var settings = new HashMap<>(Map.of("group.id", group, "heartbeat.interval.ms", "200",
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor"));
        settings.putAll(more);
        var consumer = consumer(settings);
        consumer.subscribe(List.of(name));
        return consumer;
    }

    static void transactions() {
        check("a committed transaction is read and an aborted one is not", () -> {
            var place = new TopicPartition(topic(1), 0);
            try (var producer = transactional(place.topic())) {
                for (var number = 0; number < 6; number++) {
                    producer.beginTransaction();
                    for (var record = 0; record < 3; record++) write(producer, place, number);
                    if (number % 2 == 0) producer.commitTransaction();
                    else producer.abortTransaction();
                }
            }
            var values = committed(place, 9).stream().map(record -> (int) record.value()[0]).toList();
            same(List.of(0, 0, 0, 2, 2, 2, 4, 4, 4), values);
        });
        check("a transaction over many partitions is atomic", () -> {
            var name = topic(10);
            try (var producer = transactional(name)) {
                for (var commit : List.of(false, true)) {
                    producer.beginTransaction();
                    for (var partition = 0; partition < 10; partition++) {
                        write(producer, new TopicPartition(name, partition), commit ? 1 : 0);
                    }
                    if (commit) producer.commitTransaction();
                    else producer.abortTransaction();
                }
            }
            for (var partition = 0; partition < 10; partition++) {
                same((byte) 1, committed(new TopicPartition(name, partition), 1).get(0).value()[0]);
            }
        });
        check("offsets are committed with a transaction or not at all", () -> {
            var place = new TopicPartition(topic(1), 0);
            var group = unused();
            send(place, Map.of(), 10);
            try (var producer = transactional(group); var consumer = member(group, place.topic(), Map.of())) {
                poll(consumer, 10);
                for (var commit : List.of(true, false)) {
                    producer.beginTransaction();
                    var offset = new OffsetAndMetadata(commit ? 5 : 9);
                    producer.sendOffsetsToTransaction(Map.of(place, offset), consumer.groupMetadata());
                    if (commit) producer.commitTransaction();
                    else producer.abortTransaction();
                    same(5L, consumer.committed(Set.of(place)).get(place).offset());
                }
            }
        });
        check("a new instance of a producer fences the previous one", () -> {
            var place = new TopicPartition(topic(1), 0);
            var last = transactional(place.topic());
            last.beginTransaction();
            write(last, place, 1);
            last.flush();
            try (var next = transactional(place.topic())) {
                refused(InvalidProducerEpochException.class, () -> {
                    write(last, place, 2);
                    last.commitTransaction();
                });
                next.beginTransaction();
                write(next, place, 3);
                next.commitTransaction();
            }
            last.close(Duration.ZERO);
            same((byte) 3, committed(place, 1).get(0).value()[0]);
        });
        check("an admin fences producers", () -> {
            var place = new TopicPartition(topic(1), 0);
            try (var producer = transactional(place.topic())) {
                producer.beginTransaction();
                write(producer, place, 1);
                producer.flush();
                admin().fenceProducers(List.of(place.topic())).all().get();
                refused(ProducerFencedException.class, producer::commitTransaction);
            }
        });
        check("an admin finds a hanging transaction and aborts it", () -> {
            var place = new TopicPartition(topic(1), 0);
            try (var producer = transactional(place.topic())) {
                producer.beginTransaction();
                write(producer, place, 1);
                producer.flush();
                send(place, Map.of(), 1);
                var described = admin().describeTransactions(List.of(place.topic())).description(place.topic()).get();
                same(TransactionState.ONGOING, described.state());
                same(Set.of(place), described.topicPartitions());
                var ongoing = new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))
                    .filterProducerIds(Set.of(described.producerId()));
                same(1, admin().listTransactions(ongoing).all().get().size());
                var open = admin().describeProducers(Set.of(place)).partitionResult(place).get().activeProducers().stream()
                    .filter(one -> one.producerId() == described.producerId()).findFirst().get();
                same(OptionalLong.of(0), open.currentTransactionStartOffset());
                var coordinatorEpoch = open.coordinatorEpoch().orElse(0);
                admin().abortTransaction(new AbortTransactionSpec(
                    place, open.producerId(), (short) open.producerEpoch(), coordinatorEpoch)).all().get();
                same(1L, committed(place, 1).get(0).offset());
                producer.abortTransaction();
            }
            var why = TransactionalIdNotFoundException.class;
            refused(why, admin().describeTransactions(List.of("nobody")).description("nobody"));
        });
    }

    static void crashes() {
        for (var protocol : List.of("classic", "consumer")) {
            check("members continue after a member stops and the broker is killed, " + protocol, () -> {
                var place = new TopicPartition(topic(4), 0);
                var group = unused();
                var dead = dying(protocol, group, place.topic());
                try (var heir = dying(protocol, group, place.topic())) {
                    var committed = Map.of(place, new OffsetAndMetadata(7));
                    eventually(() -> { // a member that sent no heartbeat in time must rejoin
                        settled(4, dead, heir);
                        (dead.assignment().contains(place) ? dead : heir).commitSync(committed);
                    });
                    kill();
                    awaitKills();
                    eventually(() -> {
                        settled(4, dead, heir);
                        same(2, heir.assignment().size());
                        same(7L, heir.committed(Set.of(place)).get(place).offset());
                    });
                    send(place, Map.of(), 10);
                    dead.close(CloseOptions.groupMembershipOperation(GroupMembershipOperation.REMAIN_IN_GROUP));
                    settled(4, heir);
                    if (heir.position(place) == 7) same(7L, poll(heir, 3).get(0).offset());
                    eventually(() -> {
                        heir.poll(Duration.ofMillis(100));
                        same(10L, heir.position(place));
                    });
                }
            });
            check("a copy is exact although the broker is killed, " + protocol, () -> {
                var source = topic(4);
                var target = topic(4);
                var wanted = new ArrayList<List<Long>>();
                for (var partition = 0; partition < 4; partition++) {
                    send(new TopicPartition(source, partition), Map.of(), 2500);
                    wanted.add(LongStream.range(0, 2500).boxed().toList());
                }
                var progress = new Progress(10_000);
                var copiers = List.of(new Thread(() -> copy(protocol, source, target, "one", progress)),
                    new Thread(() -> copy(protocol, source, target, "two", progress)));
                for (var copier : copiers) copier.start();
                for (var copier : copiers) copier.join();
                awaitKills();
                var copied = new ArrayList<List<Long>>();
                for (var partition = 0; partition < 4; partition++) {
                    var place = new TopicPartition(target, partition);
                    copied.add(committed(place, 2500).stream().map(one -> number(one.value())).toList());
                    same(0, more(place, 2500));
                }
                same(wanted, copied);
            });
        }
    }

    /** The common progress of all copiers. The broker is killed after some of their transactions. */
    static class Progress {
        static final Set<Integer> KILLS = Set.of(3, 12);
        final Map<Integer, Long> offsets = new HashMap<>();
        final long records;
        int transactions = 0;

        Progress(long records) {
            this.records = records;
        }

        synchronized void learn(Map<TopicPartition, OffsetAndMetadata> committed) {
            committed.forEach((place, told) -> {
                if (told != null) offsets.merge(place.partition(), told.offset(), Math::max);
            });
        }

        synchronized void step() {
            if (KILLS.contains(++transactions)) kill();
        }

        synchronized boolean done() {
            return offsets.values().stream().mapToLong(Long::longValue).sum() == records;
        }
    }

    static void copy(String protocol, String source, String target, String name, Progress progress) {
        var settings = new HashMap<>(Map.of("group.id", target, "group.protocol", protocol,
            "isolation.level", "read_committed", "max.poll.records", "500", "max.partition.fetch.bytes", "10000"));
        var producer = transactional(target + name);
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(source));
            var lost = false;
            while (!progress.done()) {
                try {
                    if (lost) rewind(consumer, progress);
                    lost = false;
                    var records = consumer.poll(Duration.ofMillis(100));
                    if (records.isEmpty()) continue;
                    producer.beginTransaction();
                    for (var record : records) {
                        producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                    }
                    progress.step();
                    producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                    producer.commitTransaction();
                    progress.learn(records.nextOffsets());
                } catch (KafkaException | IllegalStateException error) { // IllegalStateException: a partition was revoked during a rewind
                    lost = true;
                    producer.close(Duration.ZERO);
                    producer = transactional(target + name);
                }
            }
        }
        producer.close(Duration.ZERO);
    }

    /** Seek to the committed offsets of the group. */
    static void rewind(KafkaConsumer<byte[], byte[]> consumer, Progress progress) {
        var committed = consumer.committed(consumer.assignment());
        progress.learn(committed);
        committed.forEach((place, told) -> consumer.seek(place, told == null ? 0 : told.offset()));
    }

    static int kills = 0;

    /** Request a kill and restart of the broker, without waiting for it. */
    static void kill() {
        kills++;
        System.out.println("kill");
        System.out.flush();
    }

    /** Wait until the broker has restarted after every kill. */
    static void awaitKills() throws Exception {
        for (; kills > 0; kills--) System.in.read();
    }

    /** Return a member with a short session timeout. */
    static KafkaConsumer<byte[], byte[]> dying(String protocol, String group, String name) {
        if (protocol.equals("consumer")) return newMember(group, name);
        return member(group, name, Map.of("session.timeout.ms", "1500"));
    }

    /** Return the number in a value that `send` sent. */
    static long number(byte[] value) {
        return Long.parseLong(new String(value).split(" ")[1]);
    }

    /** Return how many records after the first `count` a read_committed consumer gets. */
    static int more(TopicPartition place, int count) throws Exception {
        try (var consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(Set.of(place));
            consumer.seekToBeginning(Set.of(place));
            poll(consumer, count);
            var found = 0;
            while (consumer.position(place) < consumer.endOffsets(Set.of(place)).get(place)) {
                found += consumer.poll(Duration.ofMillis(100)).count();
            }
            return found;
        }
    }

    /** Return the first `count` records that a read_committed consumer gets. */
    static List<ConsumerRecord<byte[], byte[]>> committed(TopicPartition place, int count) {
        try (var consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(Set.of(place));
            consumer.seekToBeginning(Set.of(place));
            return poll(consumer, count);
        }
    }

    static KafkaProducer<byte[], byte[]> transactional(String name) {
        var producer = producer(Map.of("transactional.id", name));
        producer.initTransactions();
        return producer;
    }

    static void write(KafkaProducer<byte[], byte[]> producer, TopicPartition place, int value) {
        producer.send(new ProducerRecord<>(place.topic(), place.partition(), null, new byte[] {(byte) value}));
    }

    static KafkaConsumer<byte[], byte[]> newMember(String group, String name) {
        var consumer = consumer(Map.of("group.id", group, "group.protocol", "consumer"));
        consumer.subscribe(List.of(name));
        return consumer;
    }

    /** Poll all members in turn until each has partitions and each partition has one member. */
    @SafeVarargs
    static void settled(int partitions, KafkaConsumer<byte[], byte[]>... members) {
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (System.nanoTime() < deadline) {
            var all = new ArrayList<TopicPartition>();
            var idle = false;
            for (var member : members) {
                member.poll(Duration.ofMillis(100));
                idle |= member.assignment().isEmpty();
                all.addAll(member.assignment());
            }
            if (!idle && all.size() == partitions && Set.copyOf(all).size() == partitions) return;
        }
        throw new AssertionError("the members do not settle");
    }

    static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            var cause = error instanceof ExecutionException ? error.getCause() : error;
            System.out.println("not ok " + name + ": " + cause.toString().replace('\n', ' ') + " at " + line(error));
        }
        System.out.flush();
    }

    static String line(Throwable error) {
        for (var frame : error.getStackTrace()) {
            var helper = Set.of("same", "refused", "eventually", "line").contains(frame.getMethodName());
            if (frame.getClassName().startsWith("JavaChecks") && !helper) return frame.toString();
        }
        return "an unknown place";
    }

    static void same(Object expected, Object got) {
        if (expected == null ? got != null : !expected.equals(got)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }

    static void refused(Class<? extends Exception> why, Future<?> future) {
        refused(why, () -> future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS));
    }

    static void refused(Class<? extends Exception> why, Body body) {
        try {
            body.run();
        } catch (Exception error) {
            same(why, (error instanceof ExecutionException ? error.getCause() : error).getClass());
            return;
        }
        throw new AssertionError("expected " + why.getSimpleName());
    }

    interface Question<T> {
        T ask() throws Exception;
    }

    /** Repeat until the assertion holds, since Kafka reports a new or deleted topic before the broker applies it. */
    static <T> T eventually(Question<T> question) throws Exception {
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            try {
                return question.ask();
            } catch (Exception | AssertionError error) {
                if (System.nanoTime() > deadline) throw error;
                Thread.sleep(20);
            }
        }
    }

    static void eventually(Body body) throws Exception {
        eventually(() -> {
            body.run();
            return null;
        });
    }

    static Properties settings(Map<String, String> more) {
        var settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap.get(), "enable.metrics.push", "false"));
        settings.putAll(more);
        return settings;
    }

    static String unused() {
        return "java-" + UUID.randomUUID();
    }

    static Future<Void> create(String name, int partitions, int replicas) {
        return admin().createTopics(List.of(new NewTopic(name, partitions, (short) replicas))).all();
    }

    static String topic(int partitions) throws Exception {
        var name = unused();
        create(name, partitions, 1).get();
        eventually(() -> describe(name));
        for (var partition = 0; partition < partitions; partition++) {
            offset(new TopicPartition(name, partition), OffsetSpec.latest());
        }
        return name;
    }

    static int node() throws Exception {
        return admin().describeCluster().nodes().get().iterator().next().id();
    }

    static void alter(ConfigResource resource, OpType operation, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), operation);
        admin().incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    /** Return the value of a config and its source. */
    static String told(ConfigResource resource, String name) throws Exception {
        var entry = admin().describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return entry.value() + " " + entry.source();
    }

    static void quota(ClientQuotaEntity entity, Double bytesPerSecond) throws Exception {
        var change = new ClientQuotaAlteration.Op("producer_byte_rate", bytesPerSecond);
        admin().alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
    }

    static TopicDescription describe(String name) throws Exception {
        return admin().describeTopics(List.of(name)).allTopicNames().get().get(name);
    }

    static long offset(TopicPartition place, OffsetSpec spec) throws Exception {
        return admin().listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        return new KafkaProducer<>(settings(more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> more) {
        var settings = settings(Map.of(
            "enable.auto.commit", "false", "auto.offset.reset", "earliest", "fetch.max.wait.ms", "100"));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Send records with timestamps one millisecond apart; the first is ten seconds old. */
    static List<RecordMetadata> send(TopicPartition place, Map<String, String> more, int count) throws Exception {
        var futures = new ArrayList<Future<RecordMetadata>>();
        try (var producer = producer(more)) {
            for (var index = 0; index < count; index++) {
                var value = bytes("value " + index + " ".repeat(40));
                futures.add(producer.send(
                    new ProducerRecord<>(place.topic(), place.partition(), now - 10_000 + index, bytes("key"), value)));
            }
        }
        var sent = new ArrayList<RecordMetadata>();
        for (var future : futures) sent.add(future.get());
        return sent;
    }

    static List<ConsumerRecord<byte[], byte[]>> read(TopicPartition place, int count, Map<String, String> more) {
        try (var consumer = consumer(more)) {
            consumer.assign(Set.of(place));
            consumer.seekToBeginning(Set.of(place));
            var got = poll(consumer, count);
            for (var index = 0; index < count; index++) same((long) index, got.get(index).offset());
            return got;
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        var got = new ArrayList<ConsumerRecord<byte[], byte[]>>();
        var deadline = System.nanoTime() + PATIENCE.toNanos();
        while (got.size() < count && System.nanoTime() < deadline) {
            for (var record : consumer.poll(Duration.ofSeconds(1))) got.add(record);
        }
        if (got.size() < count) throw new AssertionError("expected " + count + " records, got " + got.size());
        return got;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] noise(int size) {
        var bytes = new byte[size];
        new Random(1).nextBytes(bytes);
        return bytes;
    }
}
