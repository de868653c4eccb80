"""Where messages come in and go out."""
