#!lua flags=no-writes
-- accounts: everything that is known of some messages, read in one step.
-- Composed after: account
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  ids
-- Returns    the rows as account.lua says, of those that are known

return read_accounts(list_ids(2), {})
