#!lua flags=allow-oom
-- settle: apply verdicts, each guarded by its token; a stale one changes nothing.
-- Composed after: completion
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2     how long a dedupe key outlives its message, in ms
-- ARGV 3     how many finished records are kept, -1 for any number
-- ARGV 4     how long each is kept at least, in ms
-- ARGV 5     number of tokens with completions
-- ARGV 6...  two for each of them: the token, and its completed ids, each behind two bytes of length; then nine for
--            each other settlement: id, token, verdict (retry, release, bury, hold), due_at (of a hold: probe_at),
--            reason, fingerprint, packed failure, digest of its traceback, the traceback (empty where there is none)
-- Returns    the ids refused
--
-- Holds are applied last, so that a hold stands whatever else came with it.

local FIRST, FIELDS = 6, 9

local kept_ms, keep, remember_ms, tokens = integer(2), integer(3), integer(4), integer(5)
local refused = {}
local apply = {}

function apply.retry(item, settlement)
  end_hold(item.tenant)
  judge_redrive(item, 'failed')
  item.due_at, item.crashes = settlement.due_at, 0
  enter_waiting(item)
end

local function give_back(item, due_at)
  item.due_at = due_at
  if item.charged then
    item.attempts = math.max(0, item.attempts - 1)
  end
  enter_waiting(item)
end

function apply.release(item, settlement)
  if settlement.failure ~= '' then
    item.crashes = item.crashes + 1
  end
  give_back(item, settlement.due_at)
end

function apply.hold(item, settlement)
  give_back(item, now)
  hold_lane(item.tenant, settlement.due_at, settlement.reason)
end

-- What was reclaimed and is buried has not been tried: it says nothing of the cause of a hold.
function apply.bury(item, settlement)
  if not item.lapsed then
    end_hold(item.tenant)
  end
  judge_redrive(item, 'failed')
  item.reason, item.fingerprint, item.died_at = settlement.reason, settlement.fingerprint, now
  item.first_died_at = item.first_died_at > 0 and item.first_died_at or now
  item.frame = redis.call('HGET', root .. ':messages', item.id) or ''
  redis.call('HDEL', root .. ':messages', item.id)
  enter_dead(item)
  end_redrive(item, 'dead')
end

local function read_settlement(index)
  local settlement = {
    id = ARGV[index], token = ARGV[index + 1], verdict = ARGV[index + 2],
    due_at = math.max(0, integer(index + 3)),
    reason = ARGV[index + 4], fingerprint = ARGV[index + 5], failure = ARGV[index + 6],
    digest = ARGV[index + 7], trace = ARGV[index + 8],
  }
  if not apply[settlement.verdict] then
    error('verdict ' .. settlement.verdict .. ' is unknown')
  end
  return settlement
end

local function read_settlements()
  local settlements = {}
  for index = FIRST + 2 * tokens, #ARGV, FIELDS do
    settlements[#settlements + 1] = read_settlement(index)
  end
  return settlements
end

local function settle(settlement)
  local id, token = settlement.id, settlement.token
  local marks, track, tenant, head = read_held(redis.call('HGET', root .. ':held', id), token)
  if not marks then
    refused[#refused + 1] = id
    return
  end
  local item = held_item(id, marks, track, tenant, head)
  redis.call('HDEL', root .. ':held', id)
  let_go(token, 1)
  count(touch(item.tenant), 'in_flight', -1)
  record_failure(id, settlement.failure, settlement.digest, settlement.trace)
  apply[settlement.verdict](item, settlement)
end

local function settle_all(settlements, holds)
  for _, settlement in ipairs(settlements) do
    if (settlement.verdict == 'hold') == holds then
      settle(settlement)
    end
  end
end

if tokens < 0 or #ARGV < FIRST - 1 + 2 * tokens or (#ARGV + 1 - FIRST - 2 * tokens) % FIELDS ~= 0 then
  return redis.error_reply('REDRIVE settle takes two arguments for each token, nine for each other settlement')
end

local settlements = read_settlements()
if tokens > 0 then
  complete_all(FIRST, tokens, kept_ms, keep, now - remember_ms, refused)
end
settle_all(settlements, false)
settle_all(settlements, true)
save_lanes()
return refused
