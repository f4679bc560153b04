"""Pictures of environments, and what keeps them."""
