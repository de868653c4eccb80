"""WS-Addressing 1.0 and the member submission of 2004/08, without I/O.

Modules of the envelope import names from here, so this file imports nothing.
"""
