#!lua flags=no-writes
-- accounts: everything that is known of some messages, read in one step.
-- Composed after: account_rows
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  ids
-- Returns    the rows as account_rows says, of those that are known

return with_parents(read_accounts(list_ids(2)))
