"""Speak to a running node from another process."""
