-- Have the claims of a runner hold for another lease, by this server's clock. KEYS: runners.
-- ARGV: runner, lease in ms, seconds that runners are kept.
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[2]), ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
