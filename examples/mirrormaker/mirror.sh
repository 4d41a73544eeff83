#!/usr/bin/env bash
# Copies a topic from one Kafka cluster to another, with MirrorMaker 2. Without a second address, both are one broker.
set -euo pipefail
cd "$(dirname "$0")"
old=${1:-127.0.0.1:9092}
new=${2:-$old}
scratch=$(mktemp -d)
topic=greetings-${scratch##*.}
export CLASSPATH="target/jars/*"

mvn -q -B dependency:copy-dependencies -DoutputDirectory=target/jars
printf '%s\n' "hello Ada" "hello Grace" "hello Edsger" |
    java org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$old" --topic "$topic" >"$scratch/log" 2>&1

cat >"$scratch/mirror.properties" <<END
clusters=old,new
old.bootstrap.servers=$old
new.bootstrap.servers=$new
old->new.enabled=true
old->new.topics=$topic
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
END
java org.apache.kafka.connect.mirror.MirrorMaker "$scratch/mirror.properties" >>"$scratch/log" 2>&1 &
trap 'kill $!; wait $! || true; rm -r "$scratch"' EXIT
java org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$new" --topic "old.$topic" --from-beginning \
    --max-messages 3 --timeout-ms 90000 2>>"$scratch/log" || tail -50 "$scratch/log" >&2
