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
