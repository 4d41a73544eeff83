import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends three greetings and reads them in a group, with Apache Kafka's own client. */
public class Greet {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments.length > 0 ? arguments[0] : "127.0.0.1:9092";
        String topic = "greetings-" + UUID.randomUUID();

        Map<String, Object> sending = Map.of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer())) {
            for (String name : List.of("Ada", "Grace", "Edsger")) {
                producer.send(new ProducerRecord<>(topic, "hello " + name)).get();
            }
        }

        Map<String, Object> reading = Map.of("bootstrap.servers", bootstrap, "group.id", "greeted-" + topic,
                "group.protocol", "consumer", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            int read = 0;
            while (read < 3) {
                for (var each : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(each.value());
                    read++;
                }
            }
        }
    }
}
