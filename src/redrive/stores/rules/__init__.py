"""What a store on SQL decides, without its database: rows come in, what to write goes out.

Nothing here knows a dialect, a driver or a clock. Redis repeats these rules in Lua, and the conformance suite
holds them together.
"""
