#!lua
-- bury: take in dead letters from elsewhere, as they are; known ids are skipped (P28).
-- Composed after: queue, placement, messages, families, history
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2...  for each letter: id, digest of the body, frame, packed progress; number of failures, for each
--            packed failure, digest of its traceback, traceback; number of re-drives, each packed
-- Returns    { the ids taken in }; when a parent is unknown or has lost its body, nothing is written:
--            { {}, id of its child }

local function read_list(index, width)
  local rows, number = {}, integer(index)
  for row = 0, number - 1 do
    local first = index + 1 + row * width
    if not ARGV[first + width - 1] then
      error('a letter has fewer rows than it says')
    end
    rows[#rows + 1] = { ARGV[first], ARGV[first + 1], ARGV[first + 2] }
  end
  return rows, index + 1 + number * width
end

local function read_letter(index)
  local letter = {
    id = ARGV[index], digest = ARGV[index + 1], frame = ARGV[index + 2],
    progress = unpack_progress(ARGV[index + 3]),
  }
  if not letter.progress or not letter.progress.died_at then
    error('a letter has no progress or has not died')
  end
  letter.failures, index = read_list(index + 4, 3)
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
local function claim_dedupe(letter)
  local progress = letter.progress
  if progress.dedupe then
    local field = dedupe_field(progress.tenant, progress.dedupe)
    if not dedupe_holder(field) then
      take_dedupe(letter.id, field, letter.digest)
    end
  end
end

local function bury(letter)
  local id, progress = letter.id, letter.progress
  progress.sequence = next_sequence()
  if progress.parent then
    local parent = read_progress(progress.parent)
    open_child(id, progress, parent)
    write_progress(progress.parent, parent)
  end
  know_tenant(progress.tenant)
  redis.call('HSET', root .. ':m', id, letter.frame)
  for _, failure in ipairs(letter.failures) do
    record_failure(id, failure[1], failure[2], failure[3])
  end
  for _, redriven in ipairs(letter.redrives) do
    redis.call('RPUSH', root .. ':r:' .. id, redriven[1])
  end
  claim_dedupe(letter)
  enter_dead(id, progress)
  write_progress(id, progress)
end

-- The new ones in order, and the first of them that has no parent where it should have one.
local function choose(letters)
  local known, chosen, orphan = {}, {}, nil
  for _, letter in ipairs(letters) do
    if not known[letter.id] and redis.call('HEXISTS', root .. ':p', letter.id) == 0 then
      local parent = letter.progress.parent
      if parent and not known[parent] and not find_parent(parent) then
        orphan = orphan or letter.id
      end
      known[letter.id] = true
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
  buried[#buried + 1] = letter.id
end
place_touched()
return { buried }
