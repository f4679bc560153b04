"""Processes: how they start, what runs in them, what ties their lives together."""
