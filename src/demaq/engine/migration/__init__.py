"""Bring a store under a changed program."""
