"""Measurements: each module prints a ratio of two things measured alternately in one run."""
