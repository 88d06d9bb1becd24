-- What one runner asks of Redis: one script each, cut at the lines that begin with `-- name:`.
-- ARGV[1] holds the terms as a JSON list; the first of them names the keys. All time is this server's.

-- name: claim
-- Claim whole packs of contents. KEYS: judgments, claims, runners.
-- Terms: turn, runner, lease in seconds, most packs, size of each pack, contents of all.
-- Returns one letter a pack (o: ours, t: theirs, f: free), then places (from 1) and texts of the contents that are judged.
local _, runner, lease_s, at_most, sizes, contents = unpack(cjson.decode(ARGV[1]))
local day_s = 86400
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZADD', KEYS[3], now + math.max(1, math.floor(lease_s * 1000)), runner)
redis.call('EXPIRE', KEYS[3], day_s)

local function all(key)
  local found, most = {}, 1000
  for from = 1, #contents, most do
    local values = redis.call('HMGET', key, unpack(contents, from, math.min(#contents, from + most - 1)))
    for at = 1, #values do found[from + at - 1] = values[at] end
  end
  return found
end

local judged, claimed = all(KEYS[1]), all(KEYS[2])
local lives = {}
local function others(at)
  local who = claimed[at]
  if not who or who == runner then return false end
  if lives[who] == nil then lives[who] = redis.call('ZSCORE', KEYS[3], who) and true or false end
  return lives[who]
end

local shares, places, entries, at = {}, {}, {}, 1
for pack = 1, #sizes do
  local last = at + sizes[pack] - 1
  local left, share = {}, 'o'
  for content = at, last do
    if judged[content] then
      places[#places + 1] = content
      entries[#entries + 1] = judged[content]
    else
      left[#left + 1] = content
      if others(content) then share = 't' end
    end
  end
  if #left > 0 and share == 'o' then
    if at_most > 0 then
      at_most = at_most - 1
      for _, content in ipairs(left) do redis.call('HSET', KEYS[2], contents[content], runner) end
    else
      share = 'f'
    end
  end
  shares[pack] = share
  at = last + 1
end
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('EXPIRE', KEYS[2], day_s) end
return {table.concat(shares), places, entries}

-- name: store_judgments
-- Store judgments and remove the claims on them; the first of two for one content wins. KEYS: judgments, claims.
-- Terms: turn, contents, texts.
local _, contents, texts = unpack(cjson.decode(ARGV[1]))
for at = 1, #contents do
  redis.call('HSETNX', KEYS[1], contents[at], texts[at])
  redis.call('HDEL', KEYS[2], contents[at])
end
return #contents

-- name: take
-- Take from the buckets of one host and model, into debt where need be; what is negative is given back.
-- KEYS: the buckets. Terms: bucket; for each kind its name, the amount, the limit a minute, the capacity.
-- Returns the seconds to wait before it may be used, as text.
local _, kinds, amounts, limits, capacities = unpack(cjson.decode(ARGV[1]))
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local longest, full_in = 0, 0
for at = 1, #kinds do
  local kind, amount, rate, capacity = kinds[at], amounts[at], limits[at] / 60, capacities[at]
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
-- Set what a reservation has spent of a day, and what it holds in addition, in 1e-9 dollars; exact up to 9,007,199 dollars.
-- KEYS: the day, the leases of its reservations. Terms: day, reservation, to hold, spent in total, cap, lease in seconds.
-- Returns what the cap has room for after it; below zero nothing was changed. Without a cap nothing is refused: what was
-- spent counts, and the reservation holds no more than before.
local _, reservation, held, spent, cap, lease_s = unpack(cjson.decode(ARGV[1]))
local kept_s = 3 * 86400
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(field) return tonumber(redis.call('HGET', KEYS[1], field) or '0') end
local function set(field, value) redis.call('HSET', KEYS[1], field, string.format('%.0f', value)) end

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  set('held', number('held') - number('held ' .. dead))
  redis.call('HDEL', KEYS[1], 'held ' .. dead)
  redis.call('ZREM', KEYS[2], dead)
end

local held_before, spent_before = number('held ' .. reservation), number('spent ' .. reservation)
spent = math.max(spent, spent_before)
local left = 0
if cap == cjson.null then
  held = math.min(held, held_before)
else
  left = cap - (number('spent') + spent - spent_before) - (number('held') + held - held_before)
  if left < 0 then return string.format('%.0f', left) end
end
set('spent', number('spent') + spent - spent_before)
set('held', number('held') + held - held_before)
set('spent ' .. reservation, spent)
if held > 0 then
  set('held ' .. reservation, held)
  if lease_s ~= cjson.null then
    redis.call('ZADD', KEYS[2], now + math.max(1, math.floor(lease_s * 1000)), reservation)
  end
else
  redis.call('HDEL', KEYS[1], 'held ' .. reservation)
  redis.call('ZREM', KEYS[2], reservation)
end
redis.call('EXPIRE', KEYS[1], kept_s)
redis.call('EXPIRE', KEYS[2], kept_s)
return string.format('%.0f', left)

-- name: heartbeat
-- Renew the claims of a runner for another lease. KEYS: runners. Terms: runner, lease in seconds.
local runner, lease_s = unpack(cjson.decode(ARGV[1]))
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], now + math.max(1, math.floor(lease_s * 1000)), runner)
redis.call('EXPIRE', KEYS[1], 86400)
return 1

-- name: release_runner
-- Forget a runner; its claims are taken over when someone meets them. KEYS: runners. Terms: runner.
return redis.call('ZREM', KEYS[1], cjson.decode(ARGV[1])[1])

-- name: keep_exchanges
-- Keep exchanges of a user for so long; beyond a number the oldest go. KEYS: exchanges, their times.
-- Terms: user, seconds, most, names, texts, times in Unix seconds.
local _, seconds, most, names, texts, times = unpack(cjson.decode(ARGV[1]))
local function forget(gone)
  for _, name in ipairs(gone) do
    redis.call('HDEL', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
  end
end
for at = 1, #names do
  redis.call('HSET', KEYS[1], names[at], texts[at])
  redis.call('ZADD', KEYS[2], times[at], names[at])
end
forget(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', redis.call('TIME')[1] - seconds))
local surplus = redis.call('ZCARD', KEYS[2]) - most
if surplus > 0 then forget(redis.call('ZRANGE', KEYS[2], 0, surplus - 1)) end
redis.call('EXPIRE', KEYS[1], seconds)
redis.call('EXPIRE', KEYS[2], seconds)
return #names

-- name: exchanges
-- Return the exchanges of a user. KEYS: exchanges. Terms: user.
return redis.call('HVALS', KEYS[1])

-- name: forget_exchanges
-- Forget the exchanges of a user. KEYS: exchanges, their times. Terms: user.
return redis.call('DEL', KEYS[1], KEYS[2])
