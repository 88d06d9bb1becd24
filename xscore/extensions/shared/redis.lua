-- What one runner asks of Redis: one script each, cut at the lines that begin with `-- name:`.

-- name: claim
-- Claim whole packs of contents. KEYS: judgments, claims, runners.
-- ARGV: runner, lease in ms, most packs, seconds that claims are kept, packs, size of each, contents of each.
-- Returns one letter a pack (o: ours, t: theirs, f: free), then place (from 1) and text of each content that is judged.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local runner, at_most, packs = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[5])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), runner)
redis.call('EXPIRE', KEYS[3], ARGV[4])

local function all(key, first, last)
  local found, most = {}, 1000
  for from = first, last, most do
    local values = redis.call('HMGET', key, unpack(ARGV, from, math.min(last, from + most - 1)))
    for at = 1, #values do found[from + at - 1] = values[at] end
  end
  return found
end

local first = 6 + packs
local judged = all(KEYS[1], first, #ARGV)
local claimed = all(KEYS[2], first, #ARGV)
local lives = {}
local function others(at)
  local who = claimed[at]
  if not who or who == runner then return false end
  if lives[who] == nil then lives[who] = redis.call('ZSCORE', KEYS[3], who) and true or false end
  return lives[who]
end

local shares, result, at = {}, {''}, first
for pack = 1, packs do
  local last = at + tonumber(ARGV[5 + pack]) - 1
  local left, share = {}, 'o'
  for content = at, last do
    if judged[content] then
      result[#result + 1] = content - first + 1
      result[#result + 1] = judged[content]
    else
      left[#left + 1] = content
      if others(content) then share = 't' end
    end
  end
  if #left > 0 and share == 'o' then
    if at_most > 0 then
      at_most = at_most - 1
      for _, content in ipairs(left) do redis.call('HSET', KEYS[2], ARGV[content], runner) end
    else
      share = 'f'
    end
  end
  shares[pack] = share
  at = last + 1
end
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('EXPIRE', KEYS[2], ARGV[4]) end
result[1] = table.concat(shares)
return result

-- name: store_judgments
-- Keep judgments and settle the claims on them; the first of two for one content wins. KEYS: judgments, claims.
-- ARGV: content, text, content, text, …
for at = 1, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1])
  redis.call('HDEL', KEYS[2], ARGV[at])
end
return #ARGV / 2

-- name: take
-- Take from the buckets of one host and model, into debt where need be; what is negative is given back.
-- KEYS: the buckets. ARGV: for each kind its name, the amount, the limit a minute, the capacity.
-- Returns the seconds to wait before it may be used, as text. Time is this server's, for all runners the same.
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local longest, full_in = 0, 0
for at = 1, #ARGV, 4 do
  local kind, amount = ARGV[at], tonumber(ARGV[at + 1])
  local rate, capacity = tonumber(ARGV[at + 2]) / 60, tonumber(ARGV[at + 3])
  local before = redis.call('HMGET', KEYS[1], kind, kind .. ' at')
  local level = capacity
  if before[1] then
    level = math.min(capacity, tonumber(before[1]) + math.max(0, now - tonumber(before[2])) * rate)
  end
  local missing = math.min(amount, capacity) - level
  if amount > 0 and missing > 0.000001 then longest = math.max(longest, missing / rate) end
  level = math.min(capacity, level - amount)
  full_in = math.max(full_in, (capacity - level) / rate)
  redis.call('HSET', KEYS[1], kind, string.format('%.9f', level), kind .. ' at', string.format('%.6f', now))
end
redis.call('EXPIRE', KEYS[1], math.min(math.ceil(full_in) + 60, 86400))
return string.format('%.6f', longest)

-- name: reserve
-- Say what a reservation has spent of a day and what it is to hold beside that, in 1e-9 dollars; exact up to 9,007,199 dollars.
-- KEYS: the day, the leases of its reservations. ARGV: reservation, to hold, spent altogether, cap, lease in ms, seconds to keep.
-- Returns what the cap has room for after it; below zero nothing was changed. An empty cap asks for nothing: what was
-- spent is spent, and the reservation holds no more than before.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(field) return tonumber(redis.call('HGET', KEYS[1], field) or '0') end
local function set(field, value) redis.call('HSET', KEYS[1], field, string.format('%.0f', value)) end

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  set('held', number('held') - number('held ' .. dead))
  redis.call('HDEL', KEYS[1], 'held ' .. dead)
  redis.call('ZREM', KEYS[2], dead)
end

local reservation, held, spent = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held_before, spent_before = number('held ' .. reservation), number('spent ' .. reservation)
spent = math.max(spent, spent_before)
local left = 0
if ARGV[4] == '' then
  held = math.min(held, held_before)
else
  left = tonumber(ARGV[4]) - (number('spent') + spent - spent_before) - (number('held') + held - held_before)
  if left < 0 then return string.format('%.0f', left) end
end
set('spent', number('spent') + spent - spent_before)
set('held', number('held') + held - held_before)
set('spent ' .. reservation, spent)
if held > 0 then
  set('held ' .. reservation, held)
  if ARGV[5] ~= '' then redis.call('ZADD', KEYS[2], now + tonumber(ARGV[5]), reservation) end
else
  redis.call('HDEL', KEYS[1], 'held ' .. reservation)
  redis.call('ZREM', KEYS[2], reservation)
end
redis.call('EXPIRE', KEYS[1], ARGV[6])
redis.call('EXPIRE', KEYS[2], ARGV[6])
return string.format('%.0f', left)

-- name: heartbeat
-- Have the claims of a runner hold for another lease, by this server's clock. KEYS: runners.
-- ARGV: runner, lease in ms, seconds that runners are kept.
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[2]), ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
