"""Measurements: figures side by side from one run, never a test."""
