"""Write a hundred squares to a topic, and read them with a streaming query, with Spark's `kafka` format."""

import sys
import tempfile
import uuid

import pyspark
from pyspark.sql import SparkSession

bootstrap = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
topic = f"squares-{uuid.uuid4().hex[:8]}"
connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
spark = SparkSession.builder.master("local[2]").config("spark.jars.packages", connector).getOrCreate()

to = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
spark.range(100).selectExpr("string(id) AS key", "string(id * id) AS value").write.format("kafka").options(**to).save()

source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
squares = spark.readStream.format("kafka").options(**source).load().selectExpr("int(string(value)) AS square")
with tempfile.TemporaryDirectory() as checkpoint:
    query = squares.groupBy().sum("square").writeStream.format("memory").queryName("total").outputMode("complete")
    query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
print("the sum of the squares is", spark.table("total").first()[0])
