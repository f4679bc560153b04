"""Environments stepped together: what the env nodes drive."""
