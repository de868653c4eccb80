"""Evaluate a message with everything it leads to, before anything is stored."""
