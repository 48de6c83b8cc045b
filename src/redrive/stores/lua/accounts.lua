-- accounts.lua: everything that is known of some messages. Composed after messages.lua.
--
-- For each known id: { id, frame, progress, failures, redrives, lease deadline or -1, tracebacks as digest,
-- text, digest, text, ... }

local function read_traces(failures)
  local traces, seen = {}, {}
  for _, packed in ipairs(failures) do
    local readable, failure = pcall(cmsgpack.unpack, packed)
    local digest = readable and type(failure) == 'table' and failure.trace
    if digest and not seen[digest] then
      seen[digest] = true
      traces[#traces + 1] = digest
      traces[#traces + 1] = redis.call('HGET', root .. ':traces', digest) or ''
    end
  end
  return traces
end

local function read_account(id, packed)
  local failures = redis.call('LRANGE', root .. ':f:' .. id, 0, -1)
  local progress = read_progress(id)
  local until_at = progress and progress.token and redis.call('ZSCORE', root .. ':leases', progress.token)
  return {
    id, redis.call('HGET', root .. ':m', id) or '', packed, failures,
    redis.call('LRANGE', root .. ':r:' .. id, 0, -1), tonumber(until_at or -1), read_traces(failures),
  }
end

local function read_accounts(ids)
  local accounts = {}
  for _, id in ipairs(ids) do
    local packed = redis.call('HGET', root .. ':p', id)
    if packed then
      accounts[#accounts + 1] = read_account(id, packed)
    end
  end
  return accounts
end
