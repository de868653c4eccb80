"""The state that rules read: queues, slices and collections at a snapshot."""
