#!lua flags=allow-oom
-- delete_queue: forget a queue in which nothing is open and nothing has to be remembered, with all of its keys.
-- Composed after: ending
--
-- KEYS 1  the queue's root
-- ARGV 1  skew
-- ARGV 2  how long a finished record is kept at least, in ms
-- ARGV 3  limit
-- Returns { 1 when the queue is gone, how many finished records went, how many messages wait, how many run, how many are
--         dead, until when a finished record has to be kept or -1 }
--
-- Finished records go a page a call, because each may name a family; whatever else is left goes at once with the last
-- of them. What stands in the way is looked at in every call, and then nothing is changed.

local remember_ms, limit = integer(2), integer(3)

-- Every key of a queue that has no name in it, besides the root.
local PLAIN = {
  ':messages', ':letters', ':finished', ':progress', ':failures', ':redrives', ':traces', ':trace_uses', ':children',
  ':keys', ':key_ends', ':scheduled', ':retrying', ':gone', ':oldest', ':expiry', ':held', ':leases', ':lease_counts',
  ':dead', ':done', ':finished_order', ':discarded', ':lanes', ':tenants', ':ring', ':timer', ':suspects', ':hint',
  ':changes', ':departed', ':tallies',
}

local function count_of(counter)
  return tonumber(redis.call('HGET', root, counter) or 0)
end

-- Counters and content are held against each other: where one of them was lost, the other still stands in the way.
local running = math.max(count_of('in_flight'), redis.call('HLEN', root .. ':held'))
local waiting = math.max(count_of('waiting'), redis.call('HLEN', root .. ':messages') - running)
local dead = math.max(count_of('dead'), redis.call('HLEN', root .. ':letters'))

local function last_score(key)
  return tonumber(redis.call('ZRANGE', root .. key, -1, -1, 'WITHSCORES')[2] or 0)
end

local function last_ended_at()
  local done = redis.call('LINDEX', root .. ':done', -1)
  return math.max(done and struct.unpack('>I6', done) or 0, last_score(':finished_order'), last_score(':discarded'))
end

local function forget_page()
  local removed = forget_finished(take_oldest(limit, math.huge))
  for _, id in ipairs(redis.call('ZRANGE', root .. ':discarded', 0, limit - 1)) do
    removed = removed + (forget_discarded(id) and 1 or 0)
  end
  return removed
end

local function unlink_each(suffix, names)
  for _, name in ipairs(names) do
    redis.call('UNLINK', root .. suffix .. name)
  end
end

local function unlink_all()
  unlink_each(':keys:', redis.call('ZRANGE', root .. ':key_ends', 0, -1))
  unlink_each(':tally:', redis.call('ZRANGE', root .. ':tallies', 0, -1))
  unlink_each(':lease:', redis.call('ZRANGE', root .. ':leases', 0, -1))
  unlink_each('', PLAIN)
  redis.call('DEL', root)
end

local remembered_until_at = last_ended_at() + remember_ms
if waiting + running + dead > 0 then
  return { 0, 0, waiting, running, dead, -1 }
elseif remembered_until_at > now and redis.call('HLEN', root .. ':finished') > 0 then
  return { 0, 0, 0, 0, 0, remembered_until_at }
end
local removed = forget_page()
if removed > 0 then
  return { 0, removed, 0, 0, 0, -1 }
end
unlink_all()
return { 1, 0, 0, 0, 0, -1 }
