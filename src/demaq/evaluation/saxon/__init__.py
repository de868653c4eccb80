"""Evaluate rules with Saxon, a batch of messages at a time."""
