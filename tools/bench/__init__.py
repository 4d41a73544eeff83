"""Measures pykbroker beside Apache Kafka and kfake on one machine with the same clients: ``tools/bench/run.py``.

1. Quote ratios of one run, never absolutes of two. Noisy rows run in interleaved pairs and give their median; Kafka
   against itself still gives ratios from 0.7 to 1.35 on two cores.
2. Every broker is warmed alike before anything is measured: a JVM needs a million messages to reach its speed.
3. A row measures what a broker can do, so the client must be the lesser cost: librdkafka for volume, and for small
   requests an epoll loop that sends frames built once. A broker's CPU time comes from ``/proc``, without its client's.
4. Brokers run with their defaults, but for no delay of a first rebalance.

Peers live in ``.cache`` (git ignores it) and are fetched when first asked for: Kafka by ``mvn``, kfake by ``go``.
Results go to ``RESULTS.md`` beside this file; a partial run replaces its own rows and keeps the others.
"""
