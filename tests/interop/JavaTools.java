import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command line tools one after another in this JVM.
 *
 * The argument is a directory with one file per command. Without an argument, each line of the standard input is the path
 * of such a file, and is printed once the command has ended. The lines of a file are the class of the tool, its arguments,
 * and optionally "<" followed by the standard input. The output is written to a file with the suffix ".out"; its last line
 * is "exit STATUS".
 */
public class JavaTools {
    /** Thrown when a tool calls exit. Some tools catch it and exit again. */
    static class Ended extends RuntimeException {
    }

    static final ByteArrayOutputStream output = new ByteArrayOutputStream();
    static String transcript;

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            end(status);
            throw new Ended();
        });
        if (arguments.length == 0) {
            runRequested();
            System.exit(0);
        }
        try (var files = Files.list(Path.of(arguments[0]))) {
            for (var file : files.filter(path -> !path.getFileName().toString().contains(".")).sorted().toList()) {
                run(file);
            }
        }
        System.exit(0); // ends threads that tools have left
    }

    static void runRequested() throws IOException {
        var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (var file = requests.readLine(); file != null; file = requests.readLine()) {
            run(Path.of(file));
            System.out.println(file);
        }
    }

    static void run(Path file) throws IOException {
        var lines = Files.readAllLines(file);
        var split = lines.contains("<") ? lines.indexOf("<") : lines.size();
        var input = String.join("\n", lines.subList(Math.min(split + 1, lines.size()), lines.size()));
        output.reset();
        transcript = null;
        var out = System.out;
        var err = System.err;
        var stream = new PrintStream(output, true, StandardCharsets.UTF_8);
        System.setOut(stream);
        System.setErr(stream);
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        try {
            call(lines.get(0), lines.subList(1, split).toArray(String[]::new));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        Files.writeString(Path.of(file + ".out"), transcript);
    }

    static void call(String tool, String[] arguments) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            end(0);
        } catch (InvocationTargetException failed) {
            if (!(failed.getCause() instanceof Ended)) {
                failed.getCause().printStackTrace();
                end(-1);
            }
        } catch (ReflectiveOperationException wrong) {
            wrong.printStackTrace();
            end(-2);
        }
    }

    /** Record the output so far and the exit status, at the first exit of the tool. */
    static void end(int status) {
        if (transcript == null) {
            transcript = output.toString(StandardCharsets.UTF_8) + "exit " + status + "\n";
        }
    }
}
