import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Clients of Apache Kafka with each of the given properties: what they read, or the error that they get.
 *
 * Each argument is a file of properties. Its name begins with "good" if the client may use the topic, the group and the
 * transactional id "open-" with the name of the file, and with "bad" if the broker does not accept the client at all.
 * The first one also tries what it may not do.
 */
public class SecuredClient {
    static final Duration PATIENCE = Duration.ofSeconds(20);

    interface Body {
        String run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        for (var argument : arguments) {
            var file = Path.of(argument);
            var name = file.getFileName().toString();
            var properties = new Properties();
            try (var reader = Files.newBufferedReader(file)) {
                properties.load(reader);
            }
            var settings = new HashMap<String, Object>();
            properties.forEach((key, value) -> settings.put((String) key, value));
            if (name.startsWith("good")) {
                show(name + " copies", () -> copied(settings, "open-" + name));
            }
            if (argument.equals(arguments[0])) {
                show(name + " reads", () -> read(settings, "closed", "open-" + name).toString());
                show(name + " sends", () -> sent(settings, null, "closed"));
            }
            if (argument.equals(arguments[0]) || name.startsWith("bad")) {
                show(name + " begins", () -> sent(settings, "closed", "open-" + name));
                show(name + " joins", () -> read(settings, "open-" + name, "closed").toString());
                show(name + " creates", () -> created(settings, "closed-too"));
            }
        }
    }

    static void show(String title, Body body) {
        String result;
        try {
            result = body.run();
        } catch (Exception error) {
            var cause = error instanceof ExecutionException ? error.getCause() : error;
            result = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        System.out.println(title + ": " + result);
    }

    /** Sends two records in a transaction and one in another that is aborted, and returns what a group reads. */
    static String copied(Map<String, Object> settings, String name) throws Exception {
        try (var producer = producer(settings, name)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, "aborted"));
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, "a"));
            producer.send(new ProducerRecord<>(name, "b"));
            producer.commitTransaction();
        }
        return String.join(" ", read(settings, name, name));
    }

    static String sent(Map<String, Object> settings, String id, String topic) throws Exception {
        try (var producer = producer(settings, id)) {
            if (id != null) {
                producer.initTransactions();
            }
            producer.send(new ProducerRecord<>(topic, "x")).get();
            return "sent";
        }
    }

    static List<String> read(Map<String, Object> settings, String topic, String group) {
        var all = with(settings, Map.of("group.id", group, "auto.offset.reset", "earliest", "isolation.level",
            "read_committed", "default.api.timeout.ms", 20_000));
        try (var consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            var found = new ArrayList<String>();
            var end = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < 2 && System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> found.add(record.value()));
            }
            consumer.commitSync();
            return found;
        }
    }

    static String created(Map<String, Object> settings, String topic) throws Exception {
        try (var admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            return "created";
        }
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings, String id) {
        var more = new HashMap<String, Object>(Map.of("linger.ms", 0, "max.block.ms", 20_000));
        if (id != null) {
            more.put("transactional.id", id);
        }
        return new KafkaProducer<>(with(settings, more), new StringSerializer(), new StringSerializer());
    }

    static Map<String, Object> with(Map<String, Object> settings, Map<String, Object> more) {
        var all = new HashMap<String, Object>(settings);
        all.putAll(more);
        return all;
    }
}
