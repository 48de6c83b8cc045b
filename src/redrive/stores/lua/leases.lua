-- leases.lua: who holds what. Composed after messages.lua.
--
-- A lease is a token with a deadline and the ids it holds. It ends with its last id.

local parents = {}

local function note_parent(progress)
  if progress and progress.parent then
    parents[progress.parent] = true
  end
end

local function lease_key(token)
  return root .. ':lease:' .. token
end

local function hold(id, progress, token, position)
  progress.state, progress.token = 'claimed', token
  note_parent(progress)
  write_progress(id, progress)
  redis.call('ZADD', lease_key(token), position, id)
end

local function let_go(id, token)
  redis.call('ZREM', lease_key(token), id)
  if redis.call('EXISTS', lease_key(token)) == 0 then
    redis.call('ZREM', root .. ':leases', token)
  end
end

local function read_parents()
  local frames = {}
  for id in pairs(parents) do
    frames[#frames + 1] = id
    frames[#frames + 1] = redis.call('HGET', root .. ':m', id)
  end
  return frames
end

-- { until_at, { id, frame, progress, ... }, { parent, its frame, ... } }, each parent once; until_at is 0 when
-- the token holds nothing. What was not held in this call is looked at for its parent.
local function held(token, repeated)
  local batch = {}
  for _, id in ipairs(redis.call('ZRANGE', lease_key(token), 0, -1)) do
    batch[#batch + 1] = id
    batch[#batch + 1] = redis.call('HGET', root .. ':m', id)
    batch[#batch + 1] = redis.call('HGET', root .. ':p', id)
    if repeated then
      note_parent(read_progress(id))
    end
  end
  return { tonumber(redis.call('ZSCORE', root .. ':leases', token) or 0), batch, read_parents() }
end
