import java.nio.file.*;
import java.util.*;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

/** Adds the assignments of Kafka's own assignors to each case: a line of JSON with a cluster and members. */
public class AssignorCases {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            ObjectNode row = (ObjectNode) json.readTree(in.nextLine());
            ObjectNode found = row.putObject("assigned");
            for (ConsumerPartitionAssignor assignor : List.of(new RangeAssignor(), new RoundRobinAssignor(),
                    new StickyAssignor(), new CooperativeStickyAssignor()))
                found.set(assignor.name(), assign(json, row, assignor));
            System.out.println(json.writeValueAsString(row));
        }
    }

    static ObjectNode assign(ObjectMapper json, JsonNode row, ConsumerPartitionAssignor assignor) {
        List<PartitionInfo> partitions = new ArrayList<>();
        row.get("cluster").fields().forEachRemaining(topic -> {
            for (int p = 0; p < topic.getValue().size(); p++) {
                List<Node> nodes = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(p)) nodes.add(new Node(nodes.size(), "h", 1, rack.asText()));
                Node[] replicas = nodes.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), p, Node.noNode(), replicas, replicas));
            }
        });
        Map<String, Subscription> members = new HashMap<>();
        row.get("members").fields().forEachRemaining(member -> {
            JsonNode one = member.getValue();
            List<String> topics = new ArrayList<>();
            one.get("topics").forEach(t -> topics.add(t.asText()));
            List<TopicPartition> owned = new ArrayList<>();
            one.get("owned").forEach(o -> owned.add(new TopicPartition(o.get(0).asText(), o.get(1).asInt())));
            Subscription subscription = new Subscription(topics,
                java.nio.ByteBuffer.wrap(HexFormat.of().parseHex(one.get("sticky_user_data").asText())), owned, one.get("generation").asInt(),
                Optional.ofNullable(one.get("rack").textValue()));
            subscription.setGroupInstanceId(Optional.ofNullable(one.get("instance").textValue()));
            members.put(member.getKey(), subscription);
        });
        Cluster cluster = new Cluster("c", List.of(), partitions, Set.of(), Set.of());
        ObjectNode out = json.createObjectNode();
        assignor.assign(cluster, new GroupSubscription(members)).groupAssignment().forEach((member, assignment) -> {
            ArrayNode list = out.putArray(member);
            assignment.partitions().forEach(tp -> list.addArray().add(tp.topic()).add(tp.partition()));
        });
        return out;
    }
}
