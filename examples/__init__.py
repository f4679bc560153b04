"""Algorithms and nodes of one's own; run each from this folder's parent."""
