#!lua
-- append: deduplicate and enqueue. Refused when memory is full, so that work can drain.
-- Composed after: dedupe, children
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2     the sizes of the groups, two bytes each; empty when every entry is a group of its own
-- ARGV 3     1 when the queue has just been put on the list of queues, 0 when it was there a while ago
-- ARGV 4     the submitter's reckoning of now
-- ARGV 5...  three for each entry, groups standing together: id, frame, and 14 bytes of digest of what its dedupe key
--            stands for (empty when it has none)
-- Returns    { five for each entry that was not accepted as new: its number from 0, status (accepted, duplicate,
--            conflict, withheld), id, state, in what it differs from the first message of its id (or empty) }.
--            Nothing is written, and this is returned: now alone, when the submitter reckons with a clock that was set
--            back since, as what it calls due would wait; nothing, when the queue is not there though it was listed:
--            its data was lost, and the list perhaps with it; { {}, id of a child } whose parent is unknown or has lost
--            its body

local FIELDS, CLOCK_SET_MS = 3, 5000

local ids, heads, found = {}, {}, {}
local total = (#ARGV - 4) / FIELDS

local function frame_of(index)
  return ARGV[FIELDS * index + 3]
end

local function digest_of(index)
  return ARGV[FIELDS * index + 4]
end

local function read_entries()
  for index = 1, total do
    ids[index] = ARGV[FIELDS * index + 2]
    heads[index] = read_head(frame_of(index)) or error('entry ' .. index .. ' has no frame that can be read')
  end
end

-- What holds each entry's dedupe key in the store, by the number of the entry.
local function find_holders()
  local fields, numbers, holders = {}, {}, {}
  for index = 1, total do
    if heads[index].field then
      fields[#fields + 1], numbers[#numbers + 1] = heads[index].field, index
    end
  end
  for position, value in ipairs(find_keys(fields)) do
    holders[numbers[position]] = value
  end
  return holders
end

if total ~= math.floor(total) then
  return redis.error_reply('REDRIVE append takes three arguments for each entry')
end
read_entries()
local known, holders = find_states(ids), find_holders()

-- What this call will write: the numbers of entries by id, and by dedupe field.
local staged, staged_fields = {}, {}
local orphan = nil

local function holder_of(index)
  local first = staged_fields[heads[index].field]
  if first then
    return digest_of(first), ids[first], 'waiting'
  end
  if holders[index] then
    local digest, id = open_key(holders[index])
    return digest, id, find_states({ id })[1] or 'done'
  end
  return nil
end

-- In what two messages of one id differ; a first one that cannot be read does not.
local function difference(head, first)
  if not first or (head.content == first.content and head.field == first.field and head.tenant == first.tenant
    and head.parent == first.parent and head.track == first.track) then
    return ''
  end
  if head.tenant ~= first.tenant then
    return 'tenant'
  elseif head.track ~= first.track then
    return 'track'
  elseif head.field ~= first.field then
    return 'dedupe key'
  end
  return head.parent ~= first.parent and 'parent' or 'content'
end

local function answer(index, status, id, state, differs)
  found[index] = { status = status, id = id, state = state, differs = differs }
end

-- Returns whether the entry is new; if not, what is answered for it is in `found`.
local function judge(index)
  local id, head = ids[index], heads[index]
  if staged[id] or known[index] then
    local differs = difference(head, staged[id] and heads[staged[id]] or read_head(find_frame(id)))
    answer(index, differs == '' and 'accepted' or 'conflict', id, known[index] or 'waiting', differs)
    return false
  end
  if head.field then
    local digest, holder, state = holder_of(index)
    if holder then
      answer(index, digest == digest_of(index) and 'duplicate' or 'conflict', holder, state, '')
      return false
    end
    staged_fields[head.field] = index
  end
  if head.parent and not staged[head.parent] and not can_have_children(head.parent) then
    orphan = orphan or id
  end
  staged[id] = index
  return true
end

local fresh = {}

-- Takes back what a group with a conflict has staged.
local function withhold(first, last)
  for index = first, last do
    if staged[ids[index]] == index then
      staged[ids[index]] = nil
    end
    local field = heads[index].field
    if field and staged_fields[field] == index then
      staged_fields[field] = nil
    end
    if not found[index] or found[index].status ~= 'conflict' then
      answer(index, 'withheld', ids[index], 'waiting', '')
    end
  end
end

local function judge_group(first, last)
  local accepted = #fresh
  local conflict = false
  for index = first, last do
    if judge(index) then
      fresh[#fresh + 1] = index
    end
    conflict = conflict or (found[index] ~= nil and found[index].status == 'conflict')
  end
  if conflict then
    for position = #fresh, accepted + 1, -1 do
      fresh[position] = nil
    end
    withhold(first, last)
  end
end

local function judge_all()
  local first, sizes = 1, ARGV[2]
  for group = 1, sizes == '' and total or #sizes / 2 do
    local size = sizes == '' and 1 or struct.unpack('>I2', sizes, 2 * group - 1)
    judge_group(first, first + size - 1)
    first = first + size
  end
end

local function load_fresh_lanes()
  local tenants, seen = {}, {}
  for _, index in ipairs(fresh) do
    local tenant = heads[index].tenant
    if not seen[tenant] then
      seen[tenant] = true
      tenants[#tenants + 1] = tenant
    end
  end
  load_lanes(tenants)
end

-- Returns whether one of them is due.
local function write_fresh()
  local frames, keys, due = {}, {}, false
  load_fresh_lanes()
  for position, index in ipairs(fresh) do
    local id, head = ids[index], heads[index]
    frames[2 * position - 1], frames[2 * position] = id, frame_of(index)
    if head.field then
      keys[#keys + 1], keys[#keys + 2] = head.field, digest_of(index) .. id
    end
    if head.parent then
      open_child(id, head.parent)
    end
    arrive(touch(head.tenant), head.track, id, head.parent and CHILD or 0, head.due_at, head.expires_at, head.size)
    due = due or head.due_at <= now
  end
  call_all('HSET', root .. ':messages', frames)
  call_all('HSET', root .. ':keys', keys)
  return due
end

local function answers()
  local rows = {}
  for index = 1, total do
    if found[index] then
      local one, last = found[index], #rows
      rows[last + 1], rows[last + 2], rows[last + 3] = index - 1, one.status, one.id
      rows[last + 4], rows[last + 5] = one.state, one.differs
    end
  end
  return rows
end

if integer(3) == 0 and redis.call('EXISTS', root) == 0 then
  return false
elseif integer(4) > now + CLOCK_SET_MS then
  return now
end
judge_all()
if orphan then
  return { {}, orphan }
end
if #fresh > 0 then
  local due = write_fresh()
  save_lanes()
  if due then
    hint()
  end
end
return { answers() }
