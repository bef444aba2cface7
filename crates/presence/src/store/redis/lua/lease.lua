-- Renews a gateway's lease, and tells of all leases. Stands alone: it needs nothing of record.lua.
--
-- KEYS[1]  <prefix>:leases     hash, TTL: gateway -> "<renewed_ms> <since_ms>", when it last renewed and since when it does;
--                              "@born" -> since when (us) this store remembers: its first lease, also the first after it
--                              lost everything; "@last" -> when (ms) a lease was renewed last; and "@away" -> "<since_ms>
--                              <back_ms>", when last none was for GAP_MS, though a gateway lived before and after that
-- ARGV     gateway, lapse_ms (a lease is good for so long), forget_ms (then it is forgotten), sent_ms (when the call was
--          sent, by this clock, or 0: the gateway may have died while it waited)
-- Result   MessagePack list:
--          { now_ms, born_us, 1 when this gateway's lease was good until now or else 0, { away_since_ms, back_ms } or { 0, 0 },
--          { { gateway, renewed_ms, since_ms }, ... } }
-- Cost     9 commands
--
-- Whoever has just come shows nothing of that: "@last" is left to those who were there before, or are for NEWCOMER_MS; and
-- to those who are there since the store's first NEWCOMER_MS, in which all have just come.

local GAP_MS, NEWCOMER_MS = 1500, 5000

local gateway, lapse_ms, forget_ms, sent_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

local function pair(text)
  local first, second = string.match(text or '', '^(%d+) ?(%d*)$')
  return tonumber(first) or 0, tonumber(second) or 0
end

redis.call('HSETNX', KEYS[1], '@born', string.format('%.0f', now_us))
local renewed_before_ms, since_ms = pair(redis.call('HGET', KEYS[1], gateway))
local alive_ms = sent_ms > 0 and math.min(now_ms, sent_ms) or now_ms
since_ms = since_ms > 0 and since_ms or now_ms
redis.call('HSET', KEYS[1], gateway, string.format('%.0f %.0f', alive_ms, since_ms))
local last_ms = pair(redis.call('HGET', KEYS[1], '@last'))
local born_ms = math.floor(tonumber(redis.call('HGET', KEYS[1], '@born')) / 1000)
local was_there = since_ms <= last_ms
if was_there and last_ms < now_ms - GAP_MS then
  redis.call('HSET', KEYS[1], '@away', string.format('%.0f %.0f', last_ms, now_ms))
end
if was_there or since_ms < born_ms + NEWCOMER_MS or since_ms < now_ms - NEWCOMER_MS then
  redis.call('HSET', KEYS[1], '@last', string.format('%.0f', now_ms))
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])

local leases, born_us, away = {}, 0, { 0, 0 }
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local first, second = pair(flat[i + 1])
  if flat[i] == '@born' then
    born_us = first
  elseif flat[i] == '@away' then
    away = { first, second }
  elseif flat[i] == '@last' then
    -- Written above.
  elseif first < now_ms - forget_ms then
    redis.call('HDEL', KEYS[1], flat[i])
  elseif flat[i] ~= gateway then
    leases[#leases + 1] = { flat[i], first, second }
  end
end

return cmsgpack.pack({ now_ms, born_us, renewed_before_ms >= now_ms - lapse_ms and 1 or 0, away, leases })
