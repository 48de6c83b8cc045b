#!lua
-- bury: take in dead letters from elsewhere, as they are; known ids are skipped, except archived ones.
-- Composed after: ending
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  for each letter: id, digest of the body, frame, packed progress, frame of its parent (empty for none, or
--            where a letter before it had it); number of failures, for each packed failure, digest of its traceback,
--            traceback; number of re-drives, each packed
-- Returns    { the ids taken in }; when a parent is unknown or has lost its body, and its frame did not come with its
--            child, nothing is written: { {}, id of its child }

local function read_list(index, width)
  local rows, number = {}, integer(index)
  for row = 0, number - 1 do
    local first = index + 1 + row * width
    if not ARGV[first + width - 1] then
      error('a letter has fewer rows than it says')
    end
    rows[#rows + 1] = { packed = ARGV[first], digest = ARGV[first + 1], trace = ARGV[first + 2] }
  end
  return rows, index + 1 + number * width
end

-- Frames of parents, by their ids.
local shared = {}

local function read_letter(index)
  local item = make_item(ARGV[index], ARGV[index + 2], ARGV[index + 3])
  if not item or not item.head or item.died_at == 0 then
    error('a letter has no frame or progress that can be read, or has not died')
  end
  local letter = { item = item, digest = ARGV[index + 1] }
  if item.parent and ARGV[index + 4] ~= '' then
    shared[item.parent] = ARGV[index + 4]
  end
  letter.failures, index = read_list(index + 5, 3)
  letter.redrives, index = read_list(index, 1)
  return letter, index
end

local function read_letters()
  local letters, index = {}, 2
  while index <= #ARGV do
    letters[#letters + 1], index = read_letter(index)
  end
  return letters
end

-- A key that another message holds stays with it.
local function take_key(item, digest)
  if item.field and not find_keys({ item.field })[1] then
    redis.call('HSET', root .. ':keys', item.field, digest .. item.id)
  end
end

-- The record of a parent that is gone: as if it had been archived, so that its own letter may take its place.
local function make_parent(id)
  local item = make_item(id, shared[id])
  item.state, item.finished_at, item.move, item.actor = 'removed', now, 'archive', 'restore'
  write_ending(item, item.frame)
end

-- A parent that has lost its body, or is gone, comes back with what its children share.
local function bring_back(id)
  local ending = redis.call('HGET', root .. ':finished', id)
  if not ending then
    return make_parent(id)
  end
  local frame, packed = open_ending(ending)
  local body = string.sub(shared[id], read_head(shared[id]).length + 1)
  local whole = struct.pack(ENDING, struct.unpack(ENDING, ending), #packed) .. packed .. drop_body(frame) .. body
  redis.call('HSET', root .. ':finished', id, whole)
  redis.call('ZREM', root .. ':finished_order', id)
end

local function bury(letter)
  local item = letter.item
  if item.parent and not can_have_children(item.parent) then
    bring_back(item.parent)
  end
  redis.call('HDEL', root .. ':finished', item.id)
  redis.call('ZREM', root .. ':finished_order', item.id)
  if item.parent then
    open_child(item.id, item.parent)
  end
  for _, failure in ipairs(letter.failures) do
    record_failure(item.id, failure.packed, failure.digest, failure.trace)
  end
  for _, redriven in ipairs(letter.redrives) do
    append_record(':redrives', item.id, redriven.packed)
  end
  take_key(item, letter.digest)
  enter_dead(item)
end

-- An archived letter is known unless this is the death that was archived, or a later one.
local function is_known(letter)
  local id = letter.item.id
  if not find_states({ id })[1] then
    return false
  end
  local ending = redis.call('HGET', root .. ':finished', id)
  local archived = ending and unpack_progress(id, select(2, open_ending(ending)))
  return not archived or archived.move ~= 'archive' or archived.generation > letter.item.generation
end

-- The new ones in order, and the first of them that has no parent where it should have one.
local function choose(letters)
  local known, chosen, orphan = {}, {}, nil
  for _, letter in ipairs(letters) do
    local id, parent = letter.item.id, letter.item.parent
    if not known[id] and not is_known(letter) then
      local orphaned = parent and (parent == id or not (shared[parent] and read_head(shared[parent])))
      if orphaned and not known[parent] and not can_have_children(parent) then
        orphan = orphan or id
      end
      known[id] = true
      chosen[#chosen + 1] = letter
    end
  end
  return chosen, orphan
end

local letters, orphan = choose(read_letters())
if orphan then
  return { {}, orphan }
end
local buried = {}
for _, letter in ipairs(letters) do
  bury(letter)
  buried[#buried + 1] = letter.item.id
end
save_lanes()
return { buried }
