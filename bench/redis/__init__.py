"""Ours and its peers on one Redis: the same server settings, body and counts, ratios within one run.

Every probe gets a server of its own on a free port in a folder of its own. `theirs` holds the peers' side,
which runs in environments where neither Redrive nor its dependencies are.
"""
