package greet;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.NewTopic;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.KafkaTemplate;

/** Sends three greetings in a transaction with a template, and reads them with a listener, with Spring for Apache Kafka. */
@SpringBootApplication
public class Greet {
    private final CountDownLatch left = new CountDownLatch(3);

    @Bean
    NewTopic topic() {
        return TopicBuilder.name(System.getProperty("topic")).partitions(3).build();
    }

    @KafkaListener(topics = "${topic}", groupId = "greeted-${topic}")
    void read(String greeting) {
        System.out.println(greeting);
        left.countDown();
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("topic", "greetings-" + UUID.randomUUID());
        var application = new SpringApplication(Greet.class);
        application.setDefaultProperties(Map.of(
                "spring.kafka.bootstrap-servers", arguments.length > 0 ? arguments[0] : "127.0.0.1:9092",
                "spring.kafka.producer.transaction-id-prefix", "greeter-",
                "spring.kafka.consumer.isolation-level", "read_committed",
                "spring.kafka.consumer.auto-offset-reset", "earliest",
                "spring.main.banner-mode", "off",
                "logging.level.root", "warn"));
        try (var context = application.run()) {
            context.getBean(Greet.class).send(context.getBean(KafkaTemplate.class));
        }
    }

    private void send(KafkaTemplate<String, String> template) throws InterruptedException {
        template.executeInTransaction(sending -> {
            for (String name : new String[] {"Ada", "Grace", "Edsger"}) {
                sending.send(System.getProperty("topic"), "hello " + name);
            }
            return null;
        });
        if (!left.await(1, TimeUnit.MINUTES)) {
            throw new IllegalStateException("after a minute, " + left.getCount() + " greetings are missing");
        }
    }
}
