-- queue.lua: what every verb on a queue begins with. Composed, never run alone.
--
-- KEYS 1  the queue's root, prefix:{queue}; every other key of the queue is derived from it (P45)
-- ARGV 1  skew in milliseconds, added to the server's clock (0 outside tests)
--
-- Keys below the root:
--   (root)              hash    state, next_turn, round, round_ends, sequence, window_*, sums of the lanes
--   :m                  hash    id -> frame (frozen message, see packing.py)
--   :p                  hash    id -> progress, packed
--   :lane:T             hash    a tenant's state, weight, cap, counters; probe_at and held_reason of a hold
--   :lane:T:TRACK       zset    its waiting messages by due_at; TRACK is main, bulk, redrive or suspect
--   :tenants            zset    tenants by name
--   :ring :timer        zset    lanes by turn number, by the instant they wake
--   :suspects           zset    lanes whose suspects may run, by when the earliest one may
--   :untried :retried   zset    all waiting messages by due_at
--   :expiry             zset    all waiting messages by expires_at
--   :leases :lease:K    zset    tokens by deadline; the ids a token holds in hand-out order
--   :dead               zset    dead letters, by member (died_at and id)
--   :finished           zset    done and cancelled messages by when
--   :f:ID :r:ID         list    failures and re-drives of a message
--   :family:ID          zset    children of a message, in order of arrival
--   :traces :trace_uses hash    digest -> traceback, digest -> how many failures point to it
--   :dedupe             hash    tenant and key -> digest of the body and id
--   :dedupe_ended       zset    keys of finished messages by when they end
--   :hint               list    wake-up hints, bounded

local root = KEYS[1]

local function integer(index)
  local value = tonumber(ARGV[index])
  if not value or value ~= math.floor(value) then
    error('argument ' .. index .. ' is not a whole number')
  end
  return value
end

local function read_clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + integer(1)
end

local now = read_clock()

local HINTS = 16

-- Wakes one waiting worker; a bounded list, so hints nobody takes cost nothing.
local function hint()
  redis.call('LPUSH', root .. ':hint', 1)
  redis.call('LTRIM', root .. ':hint', 0, HINTS - 1)
end
