-- completion.lua: the verdict of most attempts, applied to a batch with few commands.
-- Composed after: ending, lease
--
-- What was done at its first attempt leaves an ending without progress: its frame and the instant say
-- everything.

-- The ids and their tokens in step, of `number` tokens from an argument on.
local function read_completions(first, number)
  local ids, tokens = {}, {}
  for index = first, first + 2 * number - 1, 2 do
    local token, packed, position = ARGV[index], ARGV[index + 1], 1
    while position <= #packed do
      local last = #ids + 1
      ids[last], position = struct.unpack('>I2c0', packed, position)
      tokens[last] = token
    end
  end
  return ids, tokens
end

-- A message that was tried before, or whose frame cannot be read, or that has open children.
local function complete_one(id, marks, track, tenant, head)
  local item = held_item(id, marks, track, tenant, head)
  judge_redrive(item, 'passed')
  end_redrive(item, 'done')
  item.state, item.finished_at = 'done', now
  if has_children(id) or head == '' then
    item.frame = redis.call('HGET', root .. ':messages', id) or ''
  end
  finish(item, false)
end

local function trim_finished(keep, number, before_at)
  local surplus = count_finished() - keep
  if surplus > 0 then
    forget_finished(take_oldest(math.min(surplus, 2 * number), before_at))
  end
end

-- What a batch comes to, gathered before it is written.
local function new_batch()
  return {
    done = {}, fields = {}, field_ids = {}, endings = {}, order = {}, parents = {}, tokens = {}, tenants = {},
    completed = {}, fanned_out = {},
  }
end

local function note_completed(batch, id, token, tenant, head, is_parent)
  local done, completed = batch.done, batch.completed[tenant]
  if is_parent then
    batch.fanned_out[tenant] = (batch.fanned_out[tenant] or 0) + 1
  end
  done[#done + 1] = id
  batch.tokens[token] = (batch.tokens[token] or 0) + 1
  if not completed then
    batch.tenants[#batch.tenants + 1] = tenant
  end
  batch.completed[tenant] = (completed or 0) + 1
  local field, parent = nil, nil
  if head ~= '' then
    field, parent = read_ends(head)
  end
  if field then
    batch.fields[#batch.fields + 1], batch.field_ids[#batch.field_ids + 1] = field, id
  end
  if parent then
    batch.parents[#batch.parents + 1] = parent
  end
end

local function gather(ids, tokens, refused)
  local batch, seen = new_batch(), {}
  local held = get_all(root .. ':held', ids)
  local families = redis.call('HEXISTS', root, 'sequence') == 1
  local ended, ended_at = struct.pack(ENDING, now, 0), struct.pack('>I6', now)
  local endings, order = batch.endings, batch.order
  for index, id in ipairs(ids) do
    local marks, track, tenant, head = read_held(held[index], tokens[index])
    if not marks or seen[id] then
      refused[#refused + 1] = id
    else
      seen[id] = true
      local is_parent = families and redis.call('EXISTS', root .. ':family:' .. id) == 1
      note_completed(batch, id, tokens[index], tenant, head, is_parent)
      if head == '' or bit.band(marks, TRIED + LOST + EXPIRED) > 0 or (is_parent and has_children(id)) then
        complete_one(id, marks, track, tenant, head)
      else
        local last = #endings
        endings[last + 1], endings[last + 2] = id, ended .. head
        order[#order + 1] = ended_at .. id
      end
    end
  end
  return batch
end

-- A parent is no work of its own: its children are what was asked for.
local function count_completed(batch)
  load_lanes(batch.tenants)
  for _, tenant in ipairs(batch.tenants) do
    local lane, number, parents = touch(tenant), batch.completed[tenant], batch.fanned_out[tenant] or 0
    count(lane, 'in_flight', -number)
    count(lane, 'done', number - parents)
    lane.served = lane.served - parents
    end_hold(tenant)
  end
end

-- Of the finished records those that ended before `before_at` may go, the latest `keep` of all excepted.
local function complete_all(first, number, kept_ms, keep, before_at, refused)
  local ids, tokens = read_completions(first, number)
  local batch = gather(ids, tokens, refused)
  call_all('HDEL', root .. ':held', batch.done)
  call_all('HDEL', root .. ':messages', batch.done)
  end_keys(batch.fields, batch.field_ids, kept_ms)
  call_all('HSET', root .. ':finished', batch.endings)
  call_all('RPUSH', root .. ':done', batch.order)
  for _, parent in ipairs(batch.parents) do
    close_child(parent)
  end
  for token, settled in pairs(batch.tokens) do
    let_go(token, settled)
  end
  count_completed(batch)
  if keep >= 0 then
    trim_finished(keep, #batch.done, before_at)
  end
end
