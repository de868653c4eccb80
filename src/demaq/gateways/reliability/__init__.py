"""Sequences of WS-ReliableMessaging in the store: those that end at this node, and those that begin here."""
