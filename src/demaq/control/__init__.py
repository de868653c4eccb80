"""The client of a running node's control socket."""
