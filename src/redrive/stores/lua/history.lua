-- history.lua: what is kept of a message beside its progress: failures, re-drives, its dedupe key, its
-- finished record. Composed after families.lua.

local function record_failure(id, failure, digest, trace)
  if failure == '' then
    return
  end
  redis.call('RPUSH', root .. ':f:' .. id, failure)
  if digest ~= '' then
    redis.call('HSETNX', root .. ':traces', digest, trace)
    redis.call('HINCRBY', root .. ':trace_uses', digest, 1)
  end
end

local function forget_trace(digest)
  if redis.call('HINCRBY', root .. ':trace_uses', digest, -1) <= 0 then
    redis.call('HDEL', root .. ':trace_uses', digest)
    redis.call('HDEL', root .. ':traces', digest)
  end
end

local function forget_failures(id)
  for _, packed in ipairs(redis.call('LRANGE', root .. ':f:' .. id, 0, -1)) do
    local readable, failure = pcall(cmsgpack.unpack, packed)
    if readable and type(failure) == 'table' and failure.trace then
      forget_trace(failure.trace)
    end
  end
  redis.call('DEL', root .. ':f:' .. id)
end

-- Writes what came of the last re-drive, once.
local function end_redrive(id, result)
  local packed = redis.call('LINDEX', root .. ':r:' .. id, -1)
  if not packed then
    return
  end
  local readable, redriven = pcall(cmsgpack.unpack, packed)
  if readable and type(redriven) == 'table' and redriven.result == 'pending' then
    redriven.result = result
    redis.call('LSET', root .. ':r:' .. id, -1, cmsgpack.pack(redriven))
  end
end

local DIGEST_LENGTH = 32

local function dedupe_field(tenant, key)
  return tenant .. '\0' .. key
end

-- The id and body digest that a key stands for, nil when it is free or has ended.
local function dedupe_holder(field)
  local value = redis.call('HGET', root .. ':dedupe', field)
  if not value then
    return nil
  end
  local ended_at = redis.call('ZSCORE', root .. ':dedupe_ended', field)
  if ended_at and tonumber(ended_at) <= now then
    return nil
  end
  return string.sub(value, DIGEST_LENGTH + 1), string.sub(value, 1, DIGEST_LENGTH)
end

local function take_dedupe(id, field, digest)
  redis.call('HSET', root .. ':dedupe', field, digest .. id)
  redis.call('ZREM', root .. ':dedupe_ended', field)
end

local function free_dedupe(id, progress)
  if not progress.dedupe then
    return
  end
  local field = dedupe_field(progress.tenant, progress.dedupe)
  if dedupe_holder(field) == id then
    redis.call('HDEL', root .. ':dedupe', field)
    redis.call('ZREM', root .. ':dedupe_ended', field)
  end
end

local function end_dedupe(id, progress, dedupe_ms)
  if not progress.dedupe then
    return
  end
  local field = dedupe_field(progress.tenant, progress.dedupe)
  if dedupe_holder(field) == id then
    redis.call('ZADD', root .. ':dedupe_ended', now + dedupe_ms, field)
  end
end

-- A frame is 4 bytes of envelope length, the envelope, the body.
local function drop_body(id)
  local frame = redis.call('HGET', root .. ':m', id)
  if frame and #frame >= 4 then
    local envelope_length = struct.unpack('>I4', frame)
    redis.call('HSET', root .. ':m', id, string.sub(frame, 1, 4 + envelope_length))
  end
end

-- What open children need stays as it is, until the last of them ends.
local function lay_to_rest(id, progress)
  if not has_body(progress) then
    drop_body(id)
    redis.call('ZADD', root .. ':finished', progress.finished_at, id)
  end
end

local function close_child(progress)
  local parent = progress.parent and read_progress(progress.parent)
  if parent and parent.children then
    parent.children = parent.children > 1 and parent.children - 1 or nil
    write_progress(progress.parent, parent)
    lay_to_rest(progress.parent, parent)
  end
end

local function keep_finished(id, progress)
  write_progress(id, progress)
  lay_to_rest(id, progress)
end

local function forget(id, progress)
  forget_child(id, progress)
  forget_failures(id)
  redis.call('DEL', root .. ':r:' .. id)
  redis.call('HDEL', root .. ':m', id)
  redis.call('HDEL', root .. ':p', id)
  redis.call('ZREM', root .. ':finished', id)
end

local function mark_removed(id, progress, move, actor)
  progress.state, progress.finished_at, progress.move, progress.actor = 'removed', now, move, actor
  free_dedupe(id, progress)
  end_redrive(id, 'removed')
end

local function cancel_waiting(id, progress, move, actor)
  leave_waiting(id, progress)
  mark_removed(id, progress, move, actor)
  keep_finished(id, progress)
  close_child(progress)
end
