"""Rounds: messages and rules to pending actions."""
