"""What Redrive decides, and nothing else.

The standard library, and msgspec for nouns: no await, no clock, no randomness, no logging. Whatever
depends on time or chance is handed in, so every rule here can be tested by a table.

Instants end in `_at` and are whole milliseconds since 1970 on the store's clock; durations end in
`_s` and are seconds.
"""
