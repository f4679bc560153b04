"""Showing the environments of a node to whoever watches, at no cost while nobody does."""
