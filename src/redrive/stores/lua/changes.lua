#!lua flags=allow-oom
-- changes: what became of a queue's letters since a number, in order; each id once.
-- Composed after: account
--
-- KEYS 1  the queue's root
-- ARGV 1  skew    ARGV 2  after this number
-- ARGV 3  from the beginning up to this number, where only what is dead is told; 0: what changed since; -1: begin
-- ARGV 4  limit
-- Returns { 1 when the reader must drop what it knew, up to (0: it has been told everything), number to go on after,
--         1 when there is more, the ids, the rows as account.lua says of those that are known }
--
-- Only the latest departures are remembered. A reader that is at the beginning need not know of older ones,
-- so it keeps the number at which it began; one whose number is older than they are begins again. So does
-- everyone after the server was started anew, has failed over or was emptied: it may have lost what it told last,
-- and would count on from numbers that are known already.

local LEAP = 1000000

local after, up_to, limit = integer(2), integer(3), integer(4)
local numbers = redis.call('HMGET', root, 'change', 'departed', 'run')
local change, forgotten, last_run = tonumber(numbers[1] or 0), tonumber(numbers[2] or 0), numbers[3]
local ids, more = {}, false

-- Which run of the server this is; nothing where it does not tell.
local function find_run()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%x+)') or nil
end

local function begin_run(run)
  change = change + LEAP
  forgotten = change
  redis.call('HSET', root, 'change', change, 'departed', forgotten, 'run', run)
end

local run = find_run()
if run and change > 0 and run ~= last_run then
  begin_run(run)
end

local reached = math.max(after, up_to)
local reset = up_to >= 0 and (reached < forgotten or reached > change)
if reset or up_to < 0 then
  after, up_to = 0, change
end

local function read(key, last)
  return redis.call('ZRANGE', root .. key, '(' .. after, last, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
end

-- Returns where to go on.
local function read_beginning()
  local dead = read(':changes', up_to)
  for index = 1, #dead, 2 do
    ids[#ids + 1] = dead[index]
  end
  if #ids < limit then
    more, after = change > up_to, up_to
    return 0, up_to
  end
  more = true
  return up_to, tonumber(dead[#dead])
end

local function read_since()
  local dead, departed = read(':changes', '+inf'), read(':departed', '+inf')
  local dead_at, departed_at, last = 1, 1, after
  while #ids < limit and (dead[dead_at] or departed[departed_at]) do
    local death, departure = tonumber(dead[dead_at + 1]), tonumber(departed[departed_at + 1])
    if death and (not departure or death < departure) then
      ids[#ids + 1], last, dead_at = dead[dead_at], death, dead_at + 2
    else
      ids[#ids + 1], last, departed_at = departed[departed_at], departure, departed_at + 2
    end
  end
  more = last < change
  return 0, last
end

local rest, position
if up_to > 0 then
  rest, position = read_beginning()
else
  rest, position = read_since()
end
return { reset and 1 or 0, rest, position, more and 1 or 0, ids, read_accounts(ids) }
