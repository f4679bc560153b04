"""A run's nodes on several hosts: what travels between these, and in what order."""
