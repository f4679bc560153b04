"""Games that come along as environments."""
