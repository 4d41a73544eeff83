import java.util.*;
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.*;
import org.apache.kafka.server.common.MetadataVersion;

/** Adds the record of Kafka's PartitionChangeBuilder to each case: a line of JSON with a partition and its target. */
public class PartitionChangeCases {
    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        Scanner in = new Scanner(System.in);
        while (in.hasNextLine()) {
            ObjectNode row = (ObjectNode) json.readTree(in.nextLine());
            row.set("record", record(json, row));
            System.out.println(json.writeValueAsString(row));
        }
    }

    static JsonNode record(ObjectMapper json, JsonNode row) {
        JsonNode old = row.get("partition"), target = row.get("target");
        int[] replicas = ints(old.get("replicas"));
        Uuid[] directories = new Uuid[replicas.length];
        for (int i = 0; i < replicas.length; i++) directories[i] = new Uuid(1, 100 + replicas[i]);
        PartitionRegistration partition = new PartitionRegistration.Builder().setReplicas(replicas)
            .setDirectories(directories).setIsr(ints(old.get("isr"))).setElr(ints(old.get("elr")))
            .setLastKnownElr(ints(old.get("last_known_elr"))).setAddingReplicas(ints(old.get("adding")))
            .setRemovingReplicas(ints(old.get("removing"))).setLeader(old.get("leader").asInt())
            .setLeaderRecoveryState(recovery(old.get("recovering").asBoolean())).setLeaderEpoch(5).setPartitionEpoch(9).build();
        Set<Integer> active = new HashSet<>(list(row.get("active")));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(partition, new Uuid(7, 7), 0, active::contains,
            MetadataVersion.fromFeatureLevel((short) row.get("level").asInt()), row.get("min_isr").asInt(), row.get("elr").asBoolean());
        builder.setTargetIsr(list(target.get("isr"))).setTargetReplicas(list(target.get("replicas")))
            .setTargetAdding(list(target.get("adding"))).setTargetRemoving(list(target.get("removing")))
            .setTargetLeaderRecoveryState(recovery(old.get("recovering").asBoolean() && !row.get("recovered").asBoolean()))
            .setElection(PartitionChangeBuilder.Election.valueOf(row.get("election").asText()))
            .setDefaultDirProvider(broker -> new Uuid(1, 100 + broker));
        if (!row.get("lost").isNull()) builder.setUncleanShutdownReplicas(List.of(row.get("lost").asInt()));
        var built = builder.build();
        if (built.isEmpty()) return json.nullNode();
        PartitionChangeRecord change = (PartitionChangeRecord) built.get().message();
        ObjectNode out = json.createObjectNode();
        out.put("leader", change.leader()).put("leader_recovery_state", change.leaderRecoveryState());
        put(out, "isr", change.isr());
        put(out, "replicas", change.replicas());
        put(out, "adding_replicas", change.addingReplicas());
        put(out, "removing_replicas", change.removingReplicas());
        put(out, "eligible_leader_replicas", change.eligibleLeaderReplicas());
        put(out, "last_known_elr", change.lastKnownElr());
        return out;
    }

    static LeaderRecoveryState recovery(boolean recovering) {
        return recovering ? LeaderRecoveryState.RECOVERING : LeaderRecoveryState.RECOVERED;
    }

    static void put(ObjectNode out, String name, List<Integer> ids) {
        if (ids == null) out.putNull(name);
        else ids.forEach(out.putArray(name)::add);
    }

    static List<Integer> list(JsonNode ids) {
        List<Integer> found = new ArrayList<>();
        ids.forEach(id -> found.add(id.asInt()));
        return found;
    }

    static int[] ints(JsonNode ids) {
        return list(ids).stream().mapToInt(Integer::intValue).toArray();
    }
}
