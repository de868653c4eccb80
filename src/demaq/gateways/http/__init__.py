"""Messages that come in over HTTP."""
