import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.slf4j.Logger;

/**
 * Asks Apache Kafka's StandardAuthorizer.
 *
 * Each line of the standard input has fields between tabs: "=" starts an authorizer with values of super.users and
 * allow.everyone.if.no.acl.found, "+" adds an ACL, "-" removes one, and "?" asks. For each question it prints the
 * decision, and the level and the text of its line in the audit log.
 */
public class AclDecisions {
    record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return ApiKeys.METADATA.id;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }

    static String audited;

    public static void main(String[] arguments) throws Exception {
        StandardAuthorizer authorizer = null;
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
        for (var line = input.readLine(); line != null; line = input.readLine()) {
            var fields = line.split("\t", -1);
            switch (fields[0]) {
                case "=" -> authorizer = started(fields[1], fields[2]);
                case "+" -> authorizer.addAcl(Uuid.fromString(fields[1]), acl(fields));
                case "-" -> authorizer.removeAcl(Uuid.fromString(fields[1]));
                default -> output.println(decision(authorizer, fields) + "\t" + audited);
            }
        }
        output.flush();
    }

    static StandardAuthorizer started(String superUsers, String allowsWithoutAcls) throws Exception {
        var authorizer = new StandardAuthorizer();
        authorizer.configure(
            Map.of("node.id", "1", "super.users", superUsers, "allow.everyone.if.no.acl.found", allowsWithoutAcls));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        listen(authorizer);
        return authorizer;
    }

    /** Gives the authorizer a logger that keeps the last line, since these jars have no implementation of SLF4J. */
    static void listen(StandardAuthorizer authorizer) throws Exception {
        var data = StandardAuthorizer.class.getDeclaredField("data");
        data.setAccessible(true);
        var log = data.get(authorizer).getClass().getDeclaredField("auditLog");
        log.setAccessible(true);
        var logger = Proxy.newProxyInstance(
            AclDecisions.class.getClassLoader(), new Class<?>[] {Logger.class}, (proxy, method, values) -> {
                if (method.getReturnType() == boolean.class) {
                    return true;
                }
                audited = method.getName().toUpperCase() + "\t" + values[0];
                return null;
            });
        log.set(data.get(authorizer), logger);
    }

    static StandardAcl acl(String[] fields) {
        return new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(fields[2])),
            fields[3],
            PatternType.fromCode(Byte.parseByte(fields[4])),
            fields[5],
            fields[6],
            AclOperation.fromCode(Byte.parseByte(fields[7])),
            AclPermissionType.fromCode(Byte.parseByte(fields[8])));
    }

    static Object decision(StandardAuthorizer authorizer, String[] fields) throws Exception {
        var principal = fields[1].split(":", 2);
        var client = new Client(new KafkaPrincipal(principal[0], principal[1]), InetAddress.getByName(fields[2]));
        var operation = AclOperation.fromCode(Byte.parseByte(fields[3]));
        var type = ResourceType.fromCode(Byte.parseByte(fields[4]));
        if (fields.length == 5) {
            return authorizer.authorizeByResourceType(client, operation, type);
        }
        var resource = new ResourcePattern(type, fields[5], PatternType.LITERAL);
        var action = new Action(
            operation, resource, Integer.parseInt(fields[8]), fields[6].equals("1"), fields[7].equals("1"));
        return authorizer.authorize(client, List.of(action)).get(0);
    }
}
