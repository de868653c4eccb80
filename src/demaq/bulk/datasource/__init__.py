"""Queues as a data source of Spark: `spark.read.format("demaq")`, also for streams and for writing."""
