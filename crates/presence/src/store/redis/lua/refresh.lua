-- Vouches for a batch of users that this gateway joined before: they stay alive for another TTL.
--
-- ARGV[2]  MessagePack map: bucket -> list of users
-- Result   MessagePack list of the users that are not known (any more) as this gateway's
-- Cost     1 command a user and 3 a bucket

local missing = {}
local ttl = integer(setup.ttl_ms)

for bucket, users in pairs(cmsgpack.unpack(ARGV[2])) do
  -- Once this gateway has not vouched for the TTL, others may have removed its part of any user.
  local lapsed = vouched_until(bucket, setup.gateway) <= now_ms
  vouch(bucket)
  for _, user in ipairs(users) do
    if call('PEXPIRE', key(bucket, 'user', user), ttl) == 0 or lapsed then
      missing[#missing + 1] = user
    end
  end
end

return cmsgpack.pack(missing)
