"""The commands of `pykbroker pipeline`, which run jobs on Spark between topics and a lake.

1. A file has the command of one job. `run` has the options that all jobs share, and runs a job to its report.
2. A signal reaches the job as KeyboardInterrupt, so that the job ends its transactions and its Spark session.
"""
