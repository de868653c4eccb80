"""Who may send, and how a node shows who it is."""
