"""What several rooms ask of the machine they run on: files that nobody else may read, files of
statements, and forks.

Below every room, beside the core, which asks nothing of a machine. Knows no message.
"""
