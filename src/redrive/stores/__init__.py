"""What remembers: each engine in a folder of its own, all with the ports of `core.ports`.

Nothing is imported here, so that a driver is loaded only by the one who uses it.
"""
