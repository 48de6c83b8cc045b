-- messages.lua: a message's progress, and the sets it belongs to in each state. Composed after
-- placement.lua.
--
-- Progress is a packed map (packing.StoredProgress has the fields). Only the functions here move a
-- message into or out of a state's sets, so that it is in exactly one state (I1).

local SEQUENCE_DIGITS = 13

local NUMBERS = {
  'due_at', 'expires_at', 'ttl_ms', 'size', 'attempts', 'crashes', 'generation', 'sequence',
}

-- Nil unless every field that a move needs is there: a script that fails half-way does not roll back.
local function unpack_progress(packed)
  local readable, progress = pcall(cmsgpack.unpack, packed)
  if not readable or type(progress) ~= 'table' then
    return nil
  end
  for _, name in ipairs(NUMBERS) do
    if type(progress[name]) ~= 'number' then
      return nil
    end
  end
  local named = type(progress.tenant) == 'string' and type(progress.track) == 'string'
  return named and progress or nil
end

local function read_progress(id)
  local packed = redis.call('HGET', root .. ':p', id)
  return packed and unpack_progress(packed) or nil
end

local function write_progress(id, progress)
  redis.call('HSET', root .. ':p', id, cmsgpack.pack(progress))
end

-- What stands in for progress that cannot be read: enough to hand the message out and bury it (P25).
local function salvage_progress(id, tenant, track, sequence)
  redis.call('ZREM', root .. ':retried', id)
  local suspect = track == SUSPECT
  return {
    state = 'waiting', tenant = tenant, track = suspect and 'main' or track, sequence = sequence,
    damaged = true, due_at = now, expires_at = now, ttl_ms = 0, size = 0,
    attempts = 0, crashes = suspect and 1 or 0, generation = 0,
  }
end

local function digits(number)
  return string.format('%0' .. SEQUENCE_DIGITS .. '.0f', number)
end

-- The sequence in front keeps messages that are due at the same instant in order of arrival.
local function member_of(id, progress)
  return digits(progress.sequence) .. id
end

local function id_of(member)
  return string.sub(member, SEQUENCE_DIGITS + 1)
end

local function waiting_key(progress)
  local track = progress.crashes > 0 and SUSPECT or progress.track
  return lane_key(progress.tenant) .. ':' .. track
end

local function due_key(progress)
  return root .. (progress.attempts > 0 and ':retried' or ':untried')
end

local function count_waiting(progress, by)
  count(progress.tenant, 'waiting', by)
  if progress.crashes > 0 then
    count(progress.tenant, 'suspects', by)
  end
end

local function enter_waiting(id, progress)
  progress.state = 'waiting'
  redis.call('ZADD', waiting_key(progress), progress.due_at, member_of(id, progress))
  redis.call('ZADD', due_key(progress), progress.due_at, id)
  redis.call('ZADD', root .. ':expiry', progress.expires_at, id)
  count_waiting(progress, 1)
end

local function leave_waiting(id, progress)
  redis.call('ZREM', waiting_key(progress), member_of(id, progress))
  redis.call('ZREM', due_key(progress), id)
  redis.call('ZREM', root .. ':expiry', id)
  count_waiting(progress, -1)
end

local function enter_dead(id, progress)
  progress.state = 'dead'
  redis.call('ZADD', root .. ':dead', 0, digits(progress.died_at) .. id)
  count(progress.tenant, 'dead', 1)
end

local function leave_dead(id, progress)
  redis.call('ZREM', root .. ':dead', digits(progress.died_at) .. id)
  count(progress.tenant, 'dead', -1)
end

-- A finished message has lost its body, unless open children need it: they are not done, cancelled or purged.
local function is_finished(progress)
  return progress.state == 'done' or (progress.state == 'removed' and progress.move ~= 'discard')
end

local function has_body(progress)
  return not is_finished(progress) or (progress.children or 0) > 0
end

local function next_sequence()
  return redis.call('HINCRBY', root, 'sequence', 1)
end

local function know_tenant(tenant)
  redis.call('ZADD', root .. ':tenants', 0, tenant)
end

local function list_ids(first)
  local ids = {}
  for index = first, #ARGV do
    ids[#ids + 1] = ARGV[index]
  end
  return ids
end
