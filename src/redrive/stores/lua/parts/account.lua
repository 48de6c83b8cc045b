-- account.lua: everything that is known of some messages, with the fields of _AccountRow in answers.py.
-- Composed after: lease, history

local function read_traces(failures)
  local traces, seen = {}, {}
  for _, packed in ipairs(split(failures)) do
    local digest = trace_of(packed)
    if digest and digest ~= '' and not seen[digest] then
      seen[digest] = true
      traces[#traces + 1], traces[#traces + 2] = digest, redis.call('HGET', root .. ':traces', digest) or ''
    end
  end
  return traces
end

local function find_content(id)
  for _, where in ipairs({ 'messages', 'letters', 'finished' }) do
    local content = redis.call('HGET', root .. ':' .. where, id)
    if content then
      return where, content
    end
  end
  return nil
end

local function deadline_of(held)
  local token = held ~= '' and select(4, struct.unpack(HELD, held))
  return tonumber(token and redis.call('ZSCORE', root .. ':leases', token) or -1)
end

-- The frame of a parent comes with the first of its children that is not finished, and not at all without `parents`.
local function read_parent(where, content, parents)
  local head = parents and where ~= 'finished' and read_head(content)
  local parent = head and head.parent
  if not parent or parents[parent] then
    return ''
  end
  parents[parent] = true
  return find_frame(parent) or ''
end

local function read_account(id, parents)
  local where, content = find_content(id)
  local held = redis.call('HGET', root .. ':held', id) or ''
  if not where and held == '' then
    return nil
  end
  local failures = redis.call('HGET', root .. ':failures', id) or ''
  return {
    id, where or 'messages', content or '', redis.call('HGET', root .. ':progress', id) or '', held, deadline_of(held),
    failures, redis.call('HGET', root .. ':redrives', id) or '', read_traces(failures),
    read_parent(where, content, parents),
  }
end

-- A row for each known id.
local function read_accounts(ids, parents)
  local accounts = {}
  for _, id in ipairs(ids) do
    accounts[#accounts + 1] = read_account(id, parents)
  end
  return accounts
end
