"""Nodes and parts that step environments and put their rows where others read them."""
