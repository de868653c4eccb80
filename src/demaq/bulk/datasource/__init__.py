"""Queues as a data source of Spark: `spark.read.format("demaq")`, and the same for streams and for writing."""
