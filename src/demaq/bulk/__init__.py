"""Many messages at once: into a queue from files and tables, and out of it again."""
