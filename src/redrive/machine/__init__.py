"""What several rooms ask of the machine they run on: files that nobody else may read, and forks.

Below every room, beside the core, which asks nothing of a machine. Knows no message.
"""
