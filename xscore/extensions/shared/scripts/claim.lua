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
