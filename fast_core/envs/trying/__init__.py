"""Environments tried before a run starts."""
