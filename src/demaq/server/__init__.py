"""The node: the parts of the engine wired together and kept running."""
