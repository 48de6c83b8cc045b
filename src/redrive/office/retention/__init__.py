"""Retention: dead letters leave for age or number, into an archive, announced a day before.

Nothing is dropped: a letter leaves the store after it was written to an archive that was read back. Where no
folder can be written to, nothing leaves, and the notice says so.
"""
