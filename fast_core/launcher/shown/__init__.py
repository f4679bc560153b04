"""What people are shown of a run, and what it leaves for them."""
