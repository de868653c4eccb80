"""Spark: a session on any master, and work spread over its executors. Imported only by who needs it."""
