"""The console: pages and an HTTP API over the same operations as the command line, in a process of their own."""
