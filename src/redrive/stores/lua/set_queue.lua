#!lua flags=allow-oom
-- set_queue: pause or resume a whole queue; its lanes stay where they stand.
-- Composed after: root
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  state
-- Returns nothing

redis.call('HSET', root, 'state', ARGV[2])
hint()
return {}
