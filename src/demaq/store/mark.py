"""The mark: what the newest commit of a store was, known apart from its database."""

MARK_NAME = "store.mark"
