"""Which messages are next, what their processing changes, and what may be committed together."""
