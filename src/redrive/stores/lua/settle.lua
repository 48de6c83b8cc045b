#!lua flags=allow-oom
-- settle: apply verdicts, each guarded by its token (P13, P23); a stale one changes nothing.
-- Composed after: queue, placement, messages, holds, leases, families, history
--
-- KEYS 1     the queue's root
-- ARGV 1     skew
-- ARGV 2     how long a dedupe key outlives its message, in ms
-- ARGV 3     1: keep a record of what is done, 0: keep none
-- ARGV 4...  nine for each settlement: id, token, verdict (complete, retry, release, bury, hold), due_at (of a
--            hold: probe_at), reason, fingerprint, packed failure, digest of its traceback, the traceback
--            (empty where there is none)
-- Returns    the ids refused
--
-- Holds are applied last, so that a hold stands whatever else came with it.

local FIELDS = 9

local dedupe_ms, keep = integer(2), integer(3) == 1

local apply = {}

function apply.complete(id, progress)
  count(progress.tenant, 'done', 1)
  end_hold(progress.tenant)
  end_redrive(id, 'done')
  end_dedupe(id, progress, dedupe_ms)
  progress.state, progress.finished_at = 'done', now
  if keep or has_body(progress) then
    keep_finished(id, progress)
  else
    forget(id, progress)
  end
  close_child(progress)
end

function apply.retry(id, progress, settlement)
  end_hold(progress.tenant)
  progress.due_at, progress.crashes = settlement.due_at, 0
  enter_waiting(id, progress)
  write_progress(id, progress)
end

local function give_back(id, progress, due_at)
  progress.due_at = due_at
  if progress.charged then
    progress.attempts = math.max(0, progress.attempts - 1)
  end
  enter_waiting(id, progress)
  write_progress(id, progress)
end

function apply.release(id, progress, settlement)
  if settlement.failure ~= '' then
    progress.crashes = progress.crashes + 1
  end
  give_back(id, progress, settlement.due_at)
end

function apply.hold(id, progress, settlement)
  give_back(id, progress, now)
  hold_lane(progress.tenant, settlement.due_at, settlement.reason)
end

-- What was reclaimed and is buried has not been tried: it says nothing of the cause of a hold.
function apply.bury(id, progress, settlement, lapse)
  if not lapse then
    end_hold(progress.tenant)
  end
  progress.reason, progress.fingerprint, progress.died_at = settlement.reason, settlement.fingerprint, now
  enter_dead(id, progress)
  end_redrive(id, 'dead')
  write_progress(id, progress)
end

local function read_settlement(index)
  local settlement = {
    id = ARGV[index], token = ARGV[index + 1], verdict = ARGV[index + 2], due_at = integer(index + 3),
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
  for index = 4, #ARGV, FIELDS do
    settlements[#settlements + 1] = read_settlement(index)
  end
  return settlements
end

-- Progress that is damaged but whose lease still holds it is settled as what its lease says it is.
local function find_held(settlement)
  if not redis.call('ZSCORE', lease_key(settlement.token), settlement.id) then
    return nil
  end
  return read_progress(settlement.id) or salvage_progress(settlement.id, 'unknown', 'main', next_sequence())
end

local function settle(settlement)
  local id, progress = settlement.id, find_held(settlement)
  if not progress then
    return false
  end
  let_go(id, settlement.token)
  count(progress.tenant, 'in_flight', -1)
  record_failure(id, settlement.failure, settlement.digest, settlement.trace)
  local lapse = progress.lapse
  progress.token, progress.lapse, progress.probe = nil, nil, nil
  apply[settlement.verdict](id, progress, settlement, lapse)
  return true
end

if (#ARGV - 3) % FIELDS ~= 0 then
  return redis.error_reply('REDRIVE settle takes nine arguments for each settlement')
end

local settlements, refused = read_settlements(), {}

local function settle_all(holds)
  for _, settlement in ipairs(settlements) do
    if (settlement.verdict == 'hold') == holds and not settle(settlement) then
      refused[#refused + 1] = settlement.id
    end
  end
end

settle_all(false)
settle_all(true)
place_touched()
return refused
