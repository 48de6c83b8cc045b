-- leases.lua: who holds what. Composed after messages.lua.
--
-- A lease is a token with a deadline and the ids it holds. It ends with its last id.

local function lease_key(token)
  return root .. ':lease:' .. token
end

local function hold(id, progress, token, position)
  progress.state, progress.token = 'claimed', token
  write_progress(id, progress)
  redis.call('ZADD', lease_key(token), position, id)
end

local function let_go(id, token)
  redis.call('ZREM', lease_key(token), id)
  if redis.call('EXISTS', lease_key(token)) == 0 then
    redis.call('ZREM', root .. ':leases', token)
  end
end

-- { until_at, id, frame, progress, id, frame, progress, ... }; only { 0 } when the token holds nothing.
local function held(token)
  local batch = { tonumber(redis.call('ZSCORE', root .. ':leases', token) or 0) }
  for _, id in ipairs(redis.call('ZRANGE', lease_key(token), 0, -1)) do
    batch[#batch + 1] = id
    batch[#batch + 1] = redis.call('HGET', root .. ':m', id)
    batch[#batch + 1] = redis.call('HGET', root .. ':p', id)
  end
  return batch
end
