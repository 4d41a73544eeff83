"""Measurements of pykbroker beside Apache Kafka and kfake, on one machine and with the same clients.

`python tools/bench/run.py` runs the measurements.

1. Quote ratios of one run, never absolute figures of two runs. Noisy rows run in interleaved pairs and give their
   median. Kafka measured against itself still gives ratios from 0.7 to 1.35 on two cores.
2. Every broker is warmed up in the same way before anything is measured: a JVM needs a million messages to reach its
   speed.
3. A row measures the broker, so the client must cost less than it: librdkafka for volume, and for small requests an
   epoll loop that sends prebuilt frames. A broker's CPU time comes from ``/proc`` and does not include its client's.
4. Brokers run with their defaults, except that a group's first rebalance is not delayed.

Peers are kept in ``.cache`` (git ignores it) and are fetched on first use: Kafka by ``mvn``, kfake by ``go``.
Results are written to ``RESULTS.md`` in this directory. A partial run replaces only the rows that it measures.
"""
