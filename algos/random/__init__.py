"""Random play: nothing is learned."""
