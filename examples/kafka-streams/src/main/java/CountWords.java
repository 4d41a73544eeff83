import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/** Counts the words of three sentences exactly once, with Kafka Streams, and prints each count. */
public class CountWords {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments.length > 0 ? arguments[0] : "127.0.0.1:9092";
        String run = UUID.randomUUID().toString();
        String sentences = "sentences-" + run;
        String counts = "counts-" + run;
        Map<String, Object> client = Map.of("bootstrap.servers", bootstrap);
        try (var admin = Admin.create(client)) {
            admin.createTopics(List.of(new NewTopic(sentences, 2, (short) 1), new NewTopic(counts, 1, (short) 1)))
                    .all().get();
        }
        try (var producer = new KafkaProducer<>(client, new StringSerializer(), new StringSerializer())) {
            for (String sentence : List.of("a rose", "is a rose", "is a rose")) {
                producer.send(new ProducerRecord<>(sentences, sentence)).get();
            }
        }

        var builder = new StreamsBuilder();
        builder.stream(sentences, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(sentence -> List.of(sentence.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .to(counts, Produced.with(Serdes.String(), Serdes.Long()));
        var left = new CountDownLatch(8);
        builder.stream(counts, Consumed.with(Serdes.String(), Serdes.Long())).foreach((word, count) -> {
            System.out.println(word + " " + count);
            left.countDown();
        });

        var properties = new Properties();
        properties.putAll(Map.of(
                "application.id", "count-words-" + run,
                "bootstrap.servers", bootstrap,
                "processing.guarantee", "exactly_once_v2",
                "statestore.cache.max.bytes", 0, // every count is sent on, not only the latest of a commit
                "state.dir", Files.createTempDirectory("count-words").toString()));
        try (var streams = new KafkaStreams(builder.build(), properties)) {
            streams.start();
            if (!left.await(1, TimeUnit.MINUTES)) {
                throw new IllegalStateException("after a minute, " + left.getCount() + " counts are missing");
            }
            streams.close(Duration.ofSeconds(10));
        }
    }
}
