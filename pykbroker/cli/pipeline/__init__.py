"""The commands of `pykbroker pipeline`, which run jobs on Spark between topics and a lake.

1. A file has the command of one job. `options` has what all jobs share, and `run` runs a job to its report.
2. A signal reaches the job as KeyboardInterrupt, so that the job ends its transactions and its Spark session.
"""
