"""WS-ReliableMessaging 1.0, 1.1 and 1.2 without I/O: messages, headers, faults, and both ends of a sequence.

Modules of the envelope import names from here, so this file imports nothing.
"""
