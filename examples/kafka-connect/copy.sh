#!/usr/bin/env bash
# Copies the lines of a file to a topic and from there to another file, with Kafka Connect in standalone mode.
set -euo pipefail
cd "$(dirname "$0")"
bootstrap=${1:-127.0.0.1:9092}
scratch=$(mktemp -d)
topic=lines-$(basename "$scratch")
printf '%s\n' "hello Ada" "hello Grace" "hello Edsger" >"$scratch/from"

cat >"$scratch/worker.properties" <<END
bootstrap.servers=$bootstrap
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename=$scratch/offsets
offset.flush.interval.ms=1000
listeners=http://127.0.0.1:0
END
cat >"$scratch/source.properties" <<END
name=source-$topic
connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector
file=$scratch/from
topic=$topic
END
cat >"$scratch/sink.properties" <<END
name=sink-$topic
connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector
file=$scratch/to
topics=$topic
END

mvn -q -B dependency:copy-dependencies -DoutputDirectory=target/jars
java -cp 'target/jars/*' org.apache.kafka.connect.cli.ConnectStandalone "$scratch"/{worker,source,sink}.properties \
    >"$scratch/log" 2>&1 &
trap 'kill $!; wait $! || true; rm -r "$scratch"' EXIT
for ((second = 0; second < 60; second++)); do
    if cmp -s "$scratch/from" "$scratch/to"; then
        cat "$scratch/to"
        exit
    fi
    sleep 1
done
tail -50 "$scratch/log" >&2
exit 1
