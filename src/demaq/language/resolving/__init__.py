"""Name resolution: scopes, prologs, and the traversal of expressions."""
