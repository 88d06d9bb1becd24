-- Give up what this runner claimed, and nothing of another. KEYS: claims. ARGV: runner, contents.
for at = 2, #ARGV do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[1] then redis.call('HDEL', KEYS[1], ARGV[at]) end
end
return #ARGV - 1
