"""The decoding of records: JSON or Avro in, typed columns out, and for each record that is bad the reason.

1. The columns are those of a reader schema, which is an Avro schema for both formats.
2. A decoder takes bytes and returns a record, or raises BadRecord. It knows neither Spark nor topics.
3. An error that the record has not caused, such as a registry that does not answer, is a PipelineError. It stops the
   job, and no record is rejected because of it.
"""
