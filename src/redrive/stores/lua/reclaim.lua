#!lua flags=allow-oom
-- reclaim: take over expired leases (lapse lost) and waiting messages past their time to live (lapse
-- expired), under a new token. A live lease is never touched (P22).
-- Composed after: queue, placement, messages, leases
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  token    ARGV 3  lease in ms    ARGV 4  limit
-- Returns the batch as leases.held says

local token, lease_ms, limit = ARGV[2], integer(3), integer(4)
local taken = 0

local function take_over(id, progress, lapse)
  progress.lapse, progress.probe = lapse, nil
  hold(id, progress, token, taken)
  taken = taken + 1
end

-- What was reclaimed as expired never ran: whoever loses it again has crashed on nothing.
local function take_lease(old)
  for _, id in ipairs(redis.call('ZRANGE', lease_key(old), 0, limit - taken - 1)) do
    let_go(id, old)
    local progress = read_progress(id) or salvage_progress(id, 'unknown', 'main', next_sequence())
    take_over(id, progress, progress.lapse == 'expired' and 'expired' or 'lost')
  end
end

local function take_expired(id)
  local progress = read_progress(id)
  if not progress then
    redis.call('ZREM', root .. ':expiry', id)
    return
  end
  leave_waiting(id, progress)
  count(progress.tenant, 'in_flight', 1)
  progress.charged = nil
  take_over(id, progress, 'expired')
end

local function sweep()
  for _, old in ipairs(redis.call('ZRANGE', root .. ':leases', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)) do
    if taken < limit then
      take_lease(old)
    end
  end
  local rest = limit - taken
  for _, id in ipairs(redis.call('ZRANGE', root .. ':expiry', '-inf', now, 'BYSCORE', 'LIMIT', 0, rest)) do
    take_expired(id)
  end
  if taken > 0 then
    redis.call('ZADD', root .. ':leases', now + lease_ms, token)
    place_touched()
  end
end

local repeated = redis.call('EXISTS', lease_key(token)) == 1
if not repeated then
  sweep()
end
return held(token, repeated)
