import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command line tools one after the other, in this JVM.
 *
 * The argument is a directory of commands, a file each: the class, its arguments, then "<" and what it reads, if that is
 * anything; a line each. What a tool says goes to a file ".out" beside it, the last line "exit STATUS".
 */
public class JavaTools {
    /** Unwinds a tool that wants to exit; some catch all and exit again. */
    static class Ended extends RuntimeException {
    }

    static final ByteArrayOutputStream said = new ByteArrayOutputStream();
    static String whole;

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            end(status);
            throw new Ended();
        });
        try (var files = Files.list(Path.of(arguments[0]))) {
            for (var file : files.filter(path -> !path.getFileName().toString().contains(".")).sorted().toList()) {
                run(file);
            }
        }
        System.exit(0); // whatever threads a tool has left
    }

    static void run(Path file) throws IOException {
        var lines = Files.readAllLines(file);
        var split = lines.contains("<") ? lines.indexOf("<") : lines.size();
        var input = String.join("\n", lines.subList(Math.min(split + 1, lines.size()), lines.size()));
        said.reset();
        whole = null;
        var out = System.out;
        var err = System.err;
        var stream = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(stream);
        System.setErr(stream);
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        try {
            call(lines.get(0), lines.subList(1, split).toArray(String[]::new));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        Files.writeString(Path.of(file + ".out"), whole);
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

    /** All that was said until now counts. */
    static void end(int status) {
        if (whole == null) {
            whole = said.toString(StandardCharsets.UTF_8) + "exit " + status + "\n";
        }
    }
}
