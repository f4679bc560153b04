"""The node that holds the replay, and the slots of the batches it draws."""
