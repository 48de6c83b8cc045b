"""What moves messages: submit, the handler registry, the worker and its duties.

The engine knows the ports and the core, never an adapter. It draws the randomness and reads the clocks
that the core is handed.
"""
