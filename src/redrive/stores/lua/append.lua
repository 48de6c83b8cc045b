#!lua
-- append: deduplicate and enqueue (P42, P47). Refused when memory is full, so that work can drain (P38).
-- Composed after: queue, placement, messages, families, history
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  five for each entry: group number (entries of a group stand together), id, digest of what its
--            dedupe key stands for, frame, packed progress
-- Returns    { three for each entry: status (accepted, duplicate, conflict, withheld), id, state }; when a
--            parent is unknown or has lost its body, nothing is written: { {}, id of its child }

local FIELDS = 5

local function read_entry(index)
  local progress = unpack_progress(ARGV[index + 4]) or error('entry ' .. index .. ' has no progress')
  return {
    group = integer(index), id = ARGV[index + 1], digest = ARGV[index + 2], frame = ARGV[index + 3],
    progress = progress, field = progress.dedupe and dedupe_field(progress.tenant, progress.dedupe),
  }
end

local function read_groups()
  local groups, last = {}, nil
  for index = 2, #ARGV, FIELDS do
    local entry = read_entry(index)
    if entry.group ~= last then
      groups[#groups + 1] = {}
      last = entry.group
    end
    table.insert(groups[#groups], entry)
  end
  return groups
end

-- What this call will write: by id, and by dedupe field. A group's own comes on top until it is judged.
local staged = { ids = {}, fields = {} }

local function find_holder(entry, own)
  local first = own.fields[entry.field] or staged.fields[entry.field]
  if first then
    return first.id, first.digest, 'waiting'
  end
  local id, digest = dedupe_holder(entry.field)
  if not id then
    return nil
  end
  local progress = read_progress(id)
  return id, digest, progress and progress.state or 'done'
end

-- The progress of a parent that this call writes itself, or that is in the store; the latter is read once.
local stored_parents = {}

local function parent_of(entry, own)
  local id = entry.progress.parent
  local fresh = own.ids[id] or staged.ids[id]
  if not fresh and not stored_parents[id] then
    stored_parents[id] = find_parent(id)
  end
  return fresh and fresh.progress or stored_parents[id]
end

local orphan = nil

local function judge(entry, own)
  if own.ids[entry.id] or staged.ids[entry.id] then
    return { 'accepted', entry.id, 'waiting' }
  end
  if redis.call('HEXISTS', root .. ':p', entry.id) == 1 then
    local known = read_progress(entry.id)
    return { 'accepted', entry.id, known and known.state or 'waiting' }
  end
  if entry.field then
    local id, digest, state = find_holder(entry, own)
    if id then
      return { digest == entry.digest and 'duplicate' or 'conflict', id, state }
    end
    own.fields[entry.field] = entry
  end
  if entry.progress.parent and not parent_of(entry, own) then
    orphan = orphan or entry.id
  end
  own.ids[entry.id] = entry
  table.insert(own.order, entry)
  return { 'accepted', entry.id, 'waiting' }
end

local function withhold(group, answers)
  for index, answer in ipairs(answers) do
    if answer[1] ~= 'conflict' then
      answers[index] = { 'withheld', group[index].id, 'waiting' }
    end
  end
end

local accepted = {}

local function stage(own)
  for _, entry in ipairs(own.order) do
    staged.ids[entry.id] = entry
    if entry.field then
      staged.fields[entry.field] = entry
    end
    accepted[#accepted + 1] = entry
  end
end

local function judge_group(group)
  local own, answers, conflict = { ids = {}, fields = {}, order = {} }, {}, false
  for index, entry in ipairs(group) do
    answers[index] = judge(entry, own)
    conflict = conflict or answers[index][1] == 'conflict'
  end
  if conflict then
    withhold(group, answers)
  else
    stage(own)
  end
  return answers
end

local parents = {}

local function write(entry)
  local progress = entry.progress
  progress.sequence = next_sequence()
  if progress.parent then
    local parent = parent_of(entry, staged)
    open_child(entry.id, progress, parent)
    parents[progress.parent] = parent
  end
  know_tenant(progress.tenant)
  redis.call('HSET', root .. ':m', entry.id, entry.frame)
  enter_waiting(entry.id, progress)
  write_progress(entry.id, progress)
  if entry.field then
    take_dedupe(entry.id, entry.field, entry.digest)
  end
  return progress.due_at <= now
end

if (#ARGV - 1) % FIELDS ~= 0 then
  return redis.error_reply('REDRIVE append takes five arguments for each entry')
end

local receipts = {}
for _, group in ipairs(read_groups()) do
  for _, answer in ipairs(judge_group(group)) do
    for _, part in ipairs(answer) do
      receipts[#receipts + 1] = part
    end
  end
end

if orphan then
  return { {}, orphan }
end

local due = false
for _, entry in ipairs(accepted) do
  due = write(entry) or due
end
for id, parent in pairs(parents) do
  write_progress(id, parent)
end
place_touched()
if due then
  hint()
end
return { receipts }
