"""The policy in your hands: the file it travels in, acting with it, evaluating it."""
