"""A small package with GOPS's interfaces, where GOPS itself isn't installed: tests, benchmarks.

Written from the interfaces and from the published algorithms, with none of GOPS's code. It leaves
out what GOPS does beside training (plots, rendering), so it is no slower than it should be.
"""
