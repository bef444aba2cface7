-- Reads what the app's backend ordered. Stands alone.
--
-- KEYS[1]  <prefix>:orders   see record_orders.lua
-- ARGV     from_s, skip, len_max: the orders of this date or later, but for so many of the first, and at most so many
-- Result   MessagePack list of { "<order> <user>", from_s }, the earliest first
-- Cost     1 command

local flat = redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
local orders = {}
for i = 1, #flat, 2 do
  orders[#orders + 1] = { flat[i], tonumber(flat[i + 1]) }
end
return cmsgpack.pack(orders)
