#!lua flags=no-writes
-- family: everything that is known of a message's children, in the order in which they were appended.
-- Composed after: account
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  id of the parent
-- Returns the rows as account.lua says

return read_accounts(redis.call('ZRANGE', root .. ':family:' .. ARGV[2], 0, -1), {})
