#!lua flags=no-writes
-- messages: a page of a queue's messages in a phase, without their bodies.
-- Composed after: lease
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  waiting, scheduled, running, done or removed    ARGV 3  tenant, empty for all
-- ARGV 4  limit
-- ARGV 5  the place that the page before ended at, empty for the first: a name (a tenant, or a token)
-- ARGV 6  and the number of the source below    ARGV 7  and what was last there
-- Returns { rows, and the place where the next page begins, as above, where there may be more }; a row is
--         { id, place, what lies there without the body, progress, held, lease deadline or -1 }
--
-- What waits is walked by tenant, and within a tenant source by source. What left a source since the page before
-- is found again by its instant; then others of the same instant may come twice.

local LOOKS, TENANTS = 2000, 200

local phase, tenant, limit = ARGV[2], ARGV[3], integer(4)
local name, begun, last = ARGV[5], math.max(1, integer(6)), ARGV[7]
local rows, looks = {}, 0
local next_place = {}

local function is_full()
  return #rows >= limit or looks >= LOOKS
end

local function stop_at(at_name, source, at_last)
  next_place = { at_name, source, at_last }
end

local function add_row(id, place, content, packed, held, until_at)
  rows[#rows + 1] = { id, place, content, packed or '', held or '', until_at or -1 }
end

local function add_waiting(id)
  local frame = redis.call('HGET', root .. ':messages', id)
  if frame then
    add_row(id, 'messages', cut_head(frame), redis.call('HGET', root .. ':progress', id))
  end
end

-- How many of a sorted set are before what comes after an element.
local function rank_after(key, element)
  if #element < ELEMENT_SIZE then
    return 0
  end
  local rank = redis.call('ZRANK', root .. key, element)
  return rank and rank + 1 or redis.call('ZCOUNT', root .. key, '-inf', '(' .. struct.unpack(ELEMENT, element))
end

local function list_ready(track, owner, from)
  local key = root .. ':ready:' .. list_of(track, owner)
  local index = from ~= '' and redis.call('LPOS', key, from)
  local first = index and index + 1 or 0
  return redis.call('LRANGE', key, first, first + limit - #rows - 1)
end

local function list_due(key, from)
  local first = rank_after(key, from)
  local behind = math.min(first + limit - #rows, redis.call('ZCOUNT', root .. key, '-inf', now))
  return behind > first and redis.call('ZRANGE', root .. key, first, behind - 1) or {}
end

local function list_later(key, from)
  local first = math.max(rank_after(key, from), redis.call('ZCOUNT', root .. key, '-inf', now))
  return redis.call('ZRANGE', root .. key, first, first + limit - #rows - 1)
end

-- { elements, the list they are of } of a tenant's sources, 1 to 7: ready by track, later by track, suspects.
local function list_source(source, owner, from)
  if source <= #TRACKS then
    return phase == 'waiting' and list_ready(source, owner, from) or {}, list_of(source, owner)
  end
  local key = source <= 2 * #TRACKS and later_key(source - #TRACKS, owner) or ':suspect:' .. owner
  return phase == 'waiting' and list_due(key, from) or list_later(key, from), ''
end

local function is_gone(list, element)
  return list ~= '' and redis.call('SISMEMBER', root .. ':gone', place_of(list, element)) == 1
end

local function take_source(source, owner, from)
  local elements, list
  repeat
    elements, list = list_source(source, owner, from)
    for _, element in ipairs(elements) do
      if not is_gone(list, element) then
        add_waiting(id_of(element))
      end
    end
    looks, from = looks + #elements + 1, elements[#elements] or ''
  until #elements == 0 or is_full()
  if #elements > 0 then
    stop_at(owner, source, from)
  end
end

local SOURCES = 2 * #TRACKS + 1

local function take_tenant(owner)
  local source, from = 1, ''
  if owner == name then
    source, from = begun, last
  end
  while source <= SOURCES and not is_full() do
    take_source(source, owner, from)
    source, from = source + 1, ''
  end
  if is_full() and #next_place == 0 then
    stop_at(owner, source, '')
  end
end

local function list_tenants()
  if tenant ~= '' then
    return { tenant }
  end
  local from = name == '' and '-' or '[' .. name
  return redis.call('ZRANGE', root .. ':tenants', from, '+', 'BYLEX', 'LIMIT', 0, TENANTS)
end

local function take_waiting()
  local owners = list_tenants()
  load_lanes(owners)
  for _, owner in ipairs(owners) do
    if is_full() then
      return
    end
    if lanes[owner].waiting > 0 then
      take_tenant(owner)
    end
  end
  if #owners == TENANTS and not is_full() then
    stop_at(owners[#owners], SOURCES + 1, '')
  end
end

local function take_token(token, from)
  local ids, held = list_held(token)
  local until_at = tonumber(redis.call('ZSCORE', root .. ':leases', token))
  for index = from, #ids do
    if is_full() then
      return
    end
    local _, _, owner, head = read_held(held[index], token)
    looks = looks + 1
    if tenant == '' or owner == tenant then
      add_row(ids[index], 'messages', head, redis.call('HGET', root .. ':progress', ids[index]), held[index], until_at)
    end
    stop_at(token, index, '')
  end
end

-- By token, because deadlines move.
local function take_running()
  local tokens = redis.call('ZRANGE', root .. ':leases', 0, -1)
  table.sort(tokens)
  for _, token in ipairs(tokens) do
    if not is_full() and (token == name or token > name) then
      take_token(token, token == name and begun + 1 or 1)
    end
  end
  if not is_full() then
    next_place = {}
  end
end

local function add_ended(id)
  local ending = redis.call('HGET', root .. ':finished', id)
  local frame, progress = '', ''
  if ending then
    frame, progress = open_ending(ending)
  end
  local item = progress ~= '' and unpack_progress(id, progress)
  local head = read_head(frame)
  local owner = item and item.tenant or head and head.tenant
  if ending and (item and item.state or 'done') == phase and (tenant == '' or owner == tenant) then
    add_row(id, 'finished', string.sub(ending, 1, ENDING_SIZE) .. progress .. drop_body(frame))
  end
end

-- A finished one is named by when and id, as in :done.
local function list_done(_, from)
  local index = from ~= '' and redis.call('LPOS', root .. ':done', from, 'RANK', -1)
  local behind = index or (from == '' and redis.call('LLEN', root .. ':done')) or 0
  local found = behind > 0 and redis.call('LRANGE', root .. ':done', math.max(0, behind - limit), behind - 1) or {}
  local newest = {}
  for place = #found, 1, -1 do
    newest[#newest + 1] = found[place]
  end
  return newest
end

local function list_ended(key, from)
  local first = 0
  if #from > 6 then
    local rank = redis.call('ZREVRANK', root .. key, string.sub(from, 7))
    first = rank and rank + 1 or redis.call('ZCOUNT', root .. key, '(' .. struct.unpack('>I6', from), '+inf')
  end
  local found, newest = redis.call('ZRANGE', root .. key, first, first + limit - 1, 'REV', 'WITHSCORES'), {}
  for place = 1, #found, 2 do
    newest[#newest + 1] = struct.pack('>I6', tonumber(found[place + 1])) .. found[place]
  end
  return newest
end

local function take_ended(source, list, key, from)
  local found
  repeat
    found = list(key, from)
    for _, member in ipairs(found) do
      if not is_full() then
        add_ended(string.sub(member, 7))
        looks, from = looks + 1, member
      end
    end
  until #found == 0 or is_full()
  if #found > 0 then
    stop_at('', source, from)
  end
end

local function is_ordered(id)
  return redis.call('ZSCORE', root .. ':discarded', id) or redis.call('ZSCORE', root .. ':finished_order', id)
end

-- Most parents that are finished while children are open stand in no order: :children has them.
local function take_parents(source, from)
  local cursor, skipped = string.match(from, '^(%d+) (%d+)$')
  cursor, skipped = cursor or '0', tonumber(skipped or 0)
  repeat
    local answer = redis.call('HSCAN', root .. ':children', cursor, 'COUNT', limit)
    for index = 2 * skipped + 1, #answer[2], 2 do
      if is_full() then
        return stop_at('', source, cursor .. ' ' .. (index - 1) / 2)
      end
      looks = looks + 1
      if not is_ordered(answer[2][index]) then
        add_ended(answer[2][index])
      end
    end
    cursor, skipped = answer[1], 0
  until cursor == '0'
end

local function take_finished()
  local sources = phase == 'done' and { ':done', ':finished_order' } or { ':discarded', ':finished_order' }
  for source = begun, #sources do
    local key = sources[source]
    if not is_full() then
      take_ended(source, key == ':done' and list_done or list_ended, key, source == begun and last or '')
    end
  end
  if not is_full() then
    take_parents(#sources + 1, begun > #sources and last or '')
  elseif #next_place == 0 then
    stop_at('', #sources + 1, '')
  end
end

if phase == 'running' then
  take_running()
elseif phase == 'waiting' or phase == 'scheduled' then
  take_waiting()
else
  take_finished()
end
return { rows, next_place }
