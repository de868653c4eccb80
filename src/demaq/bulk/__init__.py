"""Bulk operations: load queues from files and tables, export them, replay and migrate many messages."""
