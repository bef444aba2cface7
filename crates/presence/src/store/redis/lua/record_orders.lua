-- Remembers what the app's backend ordered, for gateways that are not there or do not listen. Stands alone.
--
-- KEYS[1]  <prefix>:orders   sorted set, TTL: "<order> <user>" -> the first second that it does not cover
-- ARGV     kept_s (for so long orders are remembered), then for each order its line and its date, 0 for now
-- Result   the date of now: the next second
-- Cost     3 commands, and one an order

local kept_s = tonumber(ARGV[1])
local now_s = tonumber(redis.call('TIME')[1])

for i = 2, #ARGV, 2 do
  local from_s = tonumber(ARGV[i + 1])
  redis.call('ZADD', KEYS[1], 'GT', from_s > 0 and from_s or now_s + 1, ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_s - kept_s)
redis.call('PEXPIRE', KEYS[1], kept_s * 1000)

return now_s + 1
