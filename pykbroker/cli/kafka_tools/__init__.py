"""Kafka's command line tools as translations to the commands of `pykbroker`: kafka-topics, kafka-configs and others.

1. A module holds one tool: the table of its options, and a function that gets their values. An option that is missing
   stays in the table, with the sentence that says what to use instead.
2. The options, the output and the exit codes are those of Apache Kafka 4.3.1, as far as compose files, init containers
   and health checks use them.
3. The tools ask a broker by the same functions as the commands of `pykbroker`, and know nothing else of it.
"""
