-- account_rows.lua: everything that is known of some messages.
-- Composed after: frames
--
-- For each known id: { id, place (messages, letters or finished), what lies there, progress, held, lease
-- deadline or -1, failures, re-drives, tracebacks as digest, text, digest, text, ..., the frame of its parent };
-- empty where there is none. A parent's frame comes with the first of its children, while that is not finished.

-- Where packing.StoredFailure has the digest of the traceback; empty for none.
local TRACE = 8

local function read_traces(failures)
  local traces, seen, position = {}, {}, 1
  while position + 3 <= #failures do
    local length = struct.unpack('>I4', failures, position)
    local readable, failure = pcall(cmsgpack.unpack, string.sub(failures, position + 4, position + 3 + length))
    local digest = readable and type(failure) == 'table' and failure[TRACE]
    if digest and digest ~= '' and not seen[digest] then
      seen[digest] = true
      traces[#traces + 1], traces[#traces + 2] = digest, redis.call('HGET', root .. ':traces', digest) or ''
    end
    position = position + 4 + length
  end
  return traces
end

local function find_content(id)
  for _, place in ipairs({ 'messages', 'letters', 'finished' }) do
    local content = redis.call('HGET', root .. ':' .. place, id)
    if content then
      return place, content
    end
  end
  return nil
end

-- Marks, track, tenant and token, as leases.lua packs them.
local HELD = '>BBBc0I2c0'

local function deadline_of(held)
  local token = held ~= '' and select(4, struct.unpack(HELD, held))
  return tonumber(token and redis.call('ZSCORE', root .. ':leases', token) or -1)
end

local function read_account(id)
  local place, content = find_content(id)
  local held = redis.call('HGET', root .. ':held', id) or ''
  if not place and held == '' then
    return nil
  end
  local failures = redis.call('HGET', root .. ':failures', id) or ''
  return {
    id, place or 'messages', content or '', redis.call('HGET', root .. ':progress', id) or '', held, deadline_of(held),
    failures, redis.call('HGET', root .. ':redrives', id) or '', read_traces(failures),
  }
end

local function read_accounts(ids)
  local accounts = {}
  for _, id in ipairs(ids) do
    accounts[#accounts + 1] = read_account(id)
  end
  return accounts
end

local function with_parents(accounts)
  local seen = {}
  for _, account in ipairs(accounts) do
    local head = account[2] ~= 'finished' and read_head(account[3])
    local parent = head and head.parent
    account[10] = parent and not seen[parent] and find_frame(parent) or ''
    if parent then
      seen[parent] = true
    end
  end
  return accounts
end
