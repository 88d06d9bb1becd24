-- Say what a purse has spent of a day and what it is to hold beside that, in 1e-9 dollars; exact up to 9,007,199 dollars.
-- KEYS: the day, the leases of its purses. ARGV: purse, to hold, spent altogether, cap, lease in ms, seconds to keep.
-- Returns what the cap has room for after it; below zero nothing was changed. An empty cap asks for nothing: what was
-- spent is spent, and the purse holds no more than before.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function number(field) return tonumber(redis.call('HGET', KEYS[1], field) or '0') end
local function set(field, value) redis.call('HSET', KEYS[1], field, string.format('%.0f', value)) end

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)) do
  set('held', number('held') - number('held ' .. dead))
  redis.call('HDEL', KEYS[1], 'held ' .. dead)
  redis.call('ZREM', KEYS[2], dead)
end

local purse, held, spent = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local held_before, spent_before = number('held ' .. purse), number('spent ' .. purse)
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
set('spent ' .. purse, spent)
if held > 0 then
  set('held ' .. purse, held)
  if ARGV[5] ~= '' then redis.call('ZADD', KEYS[2], now + tonumber(ARGV[5]), purse) end
else
  redis.call('HDEL', KEYS[1], 'held ' .. purse)
  redis.call('ZREM', KEYS[2], purse)
end
redis.call('EXPIRE', KEYS[1], ARGV[6])
redis.call('EXPIRE', KEYS[2], ARGV[6])
return string.format('%.0f', left)
