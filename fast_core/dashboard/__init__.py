"""The page that shows a run: a node like a user's own, and what it serves."""
