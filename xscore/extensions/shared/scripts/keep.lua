-- Keep judgments and settle the claims on them; the first of two for one content wins. KEYS: judgments, claims.
-- ARGV: content, text, content, text, …
for at = 1, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1])
  redis.call('HDEL', KEYS[2], ARGV[at])
end
return #ARGV / 2
