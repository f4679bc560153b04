"""The page that shows a run while it trains: a node that serves it, and `fastloop watch`."""
