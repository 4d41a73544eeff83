"""Jobs on Spark between topics and a lake.

1. pyspark, pyarrow, pandas and py4j are imported only where a session or a task needs them. Modules with subclasses of
   pyspark's classes are imported inside functions.
2. The pipeline knows a cluster only by the Kafka protocol. It imports nothing of the broker.
3. What a job decides about records is a function from DataFrames to DataFrames. Sessions, files and requests are
   arguments of the functions around it.
4. A job writes each record once, also if it is killed and started again: one atomic step decides about each batch.
"""
