"""The Spark format `pykbroker`: topics as data frames, in pure Python.

1. Options, columns and errors are those of Spark's own format `kafka`. Where a Spark version lacks what an option
   needs, the option is refused.
2. The driver decides which offsets a query reads, in pure functions (`planning`). A task reads one range of offsets
   (`range_reader`), or sends the rows of one partition (`row_writer`).
3. A range ends at its end offset, even if its last records are hidden: markers, aborted records and compacted ones.
4. Records that are lost fail a query unless `failOnDataLoss` is false, and are logged then.
5. Only `data_source`, `shipping`, the readers and the writers of Spark's own classes import pyspark. The others work
   without it.
"""
