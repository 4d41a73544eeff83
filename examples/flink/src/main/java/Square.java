import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Squares numbers from topic to topic, exactly once although the job fails once, with Flink, and prints the sum. */
public class Square {
    private static final int NUMBERS = 100;
    private static final AtomicBoolean failed = new AtomicBoolean();

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments.length > 0 ? arguments[0] : "127.0.0.1:9092";
        String run = UUID.randomUUID().toString();
        String numbers = "numbers-" + run;
        String squares = "squares-" + run;
        Map<String, Object> client = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(client, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < NUMBERS; number++) {
                producer.send(new ProducerRecord<>(numbers, String.valueOf(number)));
            }
        }

        var environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        environment.enableCheckpointing(500);
        environment.fromSource(source(bootstrap, numbers), WatermarkStrategy.noWatermarks(), numbers)
                .map(Square::square)
                .sinkTo(sink(bootstrap, squares));
        environment.execute("square");

        long sum = 0;
        var reading = StreamExecutionEnvironment.createLocalEnvironment(1);
        var stream = reading.fromSource(source(bootstrap, squares), WatermarkStrategy.noWatermarks(), squares);
        try (var found = stream.executeAndCollect()) {
            while (found.hasNext()) {
                sum += Long.parseLong(found.next());
            }
        }
        System.out.println("the sum of the squares is " + sum);
    }

    private static String square(String number) {
        if (number.equals("50") && !failed.getAndSet(true)) {
            throw new IllegalStateException("the job fails once, and starts again from its last checkpoint");
        }
        return String.valueOf(Long.parseLong(number) * Long.parseLong(number));
    }

    /** A source that reads the committed records of a topic and ends at its present end. */
    private static KafkaSource<String> source(String bootstrap, String topic) {
        return KafkaSource.<String>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(topic)
                .setProperty("isolation.level", "read_committed")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
    }

    /** A sink that commits one transaction for each checkpoint. */
    private static KafkaSink<String> sink(String bootstrap, String topic) {
        var properties = new Properties();
        properties.setProperty("transaction.timeout.ms", "60000"); // Flink's default, 1 hour, exceeds the broker's limit
        return KafkaSink.<String>builder()
                .setBootstrapServers(bootstrap)
                .setKafkaProducerConfig(properties)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(topic)
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(topic)
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
    }
}
