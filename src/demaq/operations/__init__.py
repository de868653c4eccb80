"""What operators read and do: once, for the command line, the HTTP API and the console."""
