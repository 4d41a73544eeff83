"""Measurements of pykbroker, Apache Kafka and kfake on one machine with the same clients.

`python tools/bench/run.py` runs the measurements. `python -m tools.bench.against COMMIT` measures this tree beside an
earlier commit, rows of the broker and of our clients alike.

1. Quote ratios of one run, never absolute figures of two runs. Noisy rows run in alternating pairs and give their
   median. Kafka compared with itself still gives ratios from 0.7 to 1.35 on two cores.
2. Every broker is warmed up in the same way before it is measured. A JVM needs a million messages to reach its full
   speed.
3. A row measures the broker, so its client must cost less than the broker: librdkafka for volume, and for small
   requests an epoll loop that sends prebuilt frames. The CPU time of a broker comes from ``/proc``, without its
   client's.
4. Brokers run with their defaults, except that the first rebalance of a group is not delayed.

Other brokers are kept in ``.cache``, which git ignores, and are downloaded on first use: Kafka by ``mvn``, kfake by
``go``. Results are written to ``RESULTS.md`` in this directory. A partial run replaces only the rows that it measures.
"""
