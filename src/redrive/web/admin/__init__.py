"""`/admin/dlq`: the dead-letter office over HTTP, one file a room.

Every route declares its permission, and passes the caller's tenant on as the scope of what it asks: a bound
key sees and moves its own tenant's letters alone. Nothing here decides; the verbs are the office's.
No route reads or writes a file that a caller named: exports are downloads, restoring is the command line's.
"""
