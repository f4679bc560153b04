"""Libraries that step many environments with one call."""
