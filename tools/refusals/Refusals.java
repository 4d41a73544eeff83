import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;

/**
 * Prints the responses by which Kafka's class of a request refuses it: with the default message of an error, and with
 * another message.
 *
 * Each line of the standard input has an error, a message, an API, a version and the body of a request. Each line of the
 * output has the API, the version, and the body of the response, and then that of the other message if it differs. Bodies
 * are in hexadecimal.
 */
public class Refusals {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (var line = input.readLine(); line != null; line = input.readLine()) {
            var fields = line.split(" ", -1);
            var error = Errors.valueOf(fields[0]);
            var version = Short.parseShort(fields[3]);
            var body = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(fields[4])));
            var request = AbstractRequest.parseRequest(ApiKeys.valueOf(fields[2]), version, body).request;
            var first = refusal(request, version, error.exception());
            var second = refusal(request, version, error.exception(fields[1]));
            System.out.println(fields[2] + " " + version + " " + first + (second.equals(first) ? "" : " " + second));
        }
    }

    private static String refusal(AbstractRequest request, short version, Throwable error) {
        var bytes = MessageUtil.toByteBufferAccessor(request.getErrorResponse(0, error).data(), version).buffer();
        var written = new byte[bytes.remaining()];
        bytes.get(written);
        return HexFormat.of().formatHex(written);
    }
}
