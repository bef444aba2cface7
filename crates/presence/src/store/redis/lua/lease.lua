-- Renews a gateway's lease, and tells of those that were not renewed for a while. Stands alone: it needs nothing of record.lua.
--
-- KEYS[1]  <prefix>:gateways   hash, TTL: gateway -> when (ms) it last renewed; and "@born" -> since when (us) this store
--                              remembers: its first lease, also the first after it lost everything
-- ARGV     gateway, lapse_ms (a lease is good for so long), forget_ms (then it is forgotten), sent_ms (when the call was
--          sent, by this clock, or 0: the gateway may have died while it waited), late_ms (a lease is late that was not
--          renewed for so long)
-- Result   MessagePack list:
--          { now_ms, born_us, 1 when this gateway's lease was good until now or else 0, 1 when no other gateway has a lease
--          that is not late though some have one or else 0, { { gateway, renewed_ms }, ... } of all that are late }
-- Cost     6 commands

local gateway, lapse_ms, forget_ms, late_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
redis.call('HSETNX', KEYS[1], '@born', string.format('%.0f', now_us))
local renewed_before_ms = tonumber(redis.call('HGET', KEYS[1], gateway) or 0)
local sent_ms = tonumber(ARGV[4])
local alive_ms = sent_ms > 0 and math.min(now_ms, math.max(sent_ms, now_ms - lapse_ms / 2)) or now_ms
redis.call('HSET', KEYS[1], gateway, string.format('%.0f', alive_ms))
redis.call('PEXPIRE', KEYS[1], ARGV[3])

local late, born_us, punctual = {}, 0, 0
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local renewed_ms = tonumber(flat[i + 1])
  if flat[i] == '@born' then
    born_us = renewed_ms
  elseif renewed_ms < now_ms - forget_ms then
    redis.call('HDEL', KEYS[1], flat[i])
  elseif renewed_ms < now_ms - late_ms then
    late[#late + 1] = { flat[i], renewed_ms }
  elseif flat[i] ~= gateway then
    punctual = punctual + 1
  end
end

local was_good = renewed_before_ms >= now_ms - lapse_ms and 1 or 0
local all_late = #late > 0 and punctual == 0 and 1 or 0
return cmsgpack.pack({ now_ms, born_us, was_good, all_late, late })
