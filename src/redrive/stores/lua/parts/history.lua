-- history.lua: failures and re-drives of a message, and what is counted for an operation.
-- Composed after: item
--
-- Failures and re-drives are packed records one after the other, each behind 4 bytes of length. Equal
-- tracebacks are kept once, with the number of failures that point to them.

local TALLY_S = 30 * 86400
-- Where packed.StoredFailure has the digest of the traceback; empty for none.
local TRACE = 8

-- The records of a list, in order.
local function split(list)
  local records, position = {}, 1
  while list and position + 3 <= #list do
    local length = struct.unpack('>I4', list, position)
    records[#records + 1] = string.sub(list, position + 4, position + 3 + length)
    position = position + 4 + length
  end
  return records
end

local function join(records)
  local parts = {}
  for _, record in ipairs(records) do
    parts[#parts + 1] = struct.pack('>I4', #record) .. record
  end
  return table.concat(parts)
end

local function append_record(key, id, record)
  local list = redis.call('HGET', root .. key, id) or ''
  redis.call('HSET', root .. key, id, list .. struct.pack('>I4', #record) .. record)
end

local function record_failure(id, failure, digest, trace)
  if failure == '' then
    return
  end
  append_record(':failures', id, failure)
  if digest ~= '' then
    redis.call('HSETNX', root .. ':traces', digest, trace)
    redis.call('HINCRBY', root .. ':trace_uses', digest, 1)
  end
end

local function trace_of(packed)
  local readable, failure = pcall(cmsgpack.unpack, packed)
  return readable and type(failure) == 'table' and failure[TRACE] or nil
end

local function forget_trace(digest)
  if redis.call('HINCRBY', root .. ':trace_uses', digest, -1) <= 0 then
    redis.call('HDEL', root .. ':trace_uses', digest)
    redis.call('HDEL', root .. ':traces', digest)
  end
end

local function forget_failures(id, failures)
  for _, packed in ipairs(split(failures)) do
    local digest = trace_of(packed)
    if digest and digest ~= '' then
      forget_trace(digest)
    end
  end
  redis.call('HDEL', root .. ':failures', id)
end

local function forget_history(id)
  forget_failures(id, redis.call('HGET', root .. ':failures', id))
  redis.call('HDEL', root .. ':redrives', id)
end

local function count_operation(operation, counter, by)
  if operation ~= '' and by > 0 then
    local key = root .. ':tally:' .. operation
    redis.call('HINCRBY', key, counter, by)
    redis.call('EXPIRE', key, TALLY_S)
    if redis.call('ZADD', root .. ':tallies', now, operation) == 1 then
      redis.call('ZREMRANGEBYSCORE', root .. ':tallies', '-inf', now - 1000 * TALLY_S)
    end
    redis.call('EXPIRE', root .. ':tallies', TALLY_S)
  end
end

-- By the first attempt that is settled after a re-drive its operation is judged, once.
local function judge_redrive(item, counter)
  if item.generation > 0 and not item.judged then
    item.judged = true
    count_operation(item.operation, counter, 1)
  end
end

-- Writes what came of the last re-drive, once.
local function end_redrive(item, result)
  local records = item.generation > 0 and split(redis.call('HGET', root .. ':redrives', item.id)) or {}
  local readable, redriven = pcall(cmsgpack.unpack, records[#records] or '')
  if not readable or type(redriven) ~= 'table' or redriven.result ~= 'pending' then
    return
  end
  redriven.result = result
  records[#records] = cmsgpack.pack(redriven)
  redis.call('HSET', root .. ':redrives', item.id, join(records))
  count_operation(item.operation, result, 1)
end
