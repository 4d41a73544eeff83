import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;

/**
 * Prints the response by which Kafka's class of a request refuses it.
 *
 * Each line of the standard input has an error, an API, a version and the body of a request; each line of the output
 * has the API, the version and the body of the response. Bodies are in hexadecimal.
 */
public class Refusals {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (var line = input.readLine(); line != null; line = input.readLine()) {
            var fields = line.split(" ", -1);
            var body = new ByteBufferAccessor(java.nio.ByteBuffer.wrap(HexFormat.of().parseHex(fields[3])));
            var version = Short.parseShort(fields[2]);
            var request = AbstractRequest.parseRequest(ApiKeys.valueOf(fields[1]), version, body).request;
            var response = request.getErrorResponse(0, Errors.valueOf(fields[0]).exception());
            var bytes = MessageUtil.toByteBufferAccessor(response.data(), version).buffer();
            var written = new byte[bytes.remaining()];
            bytes.get(written);
            System.out.println(fields[1] + " " + version + " " + HexFormat.of().formatHex(written));
        }
    }
}
