"""How names get their meaning: scopes, prologs, and the walk over expressions."""
