"""A run records its schedule, and is run again inline as it was: see `recorder` and `following`."""
