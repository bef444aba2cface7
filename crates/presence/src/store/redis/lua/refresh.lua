-- Vouches for a batch of users that this gateway joined before: they stay alive for another TTL.
--
-- ARGV[2]  MessagePack map: bucket -> list of users
-- Result   MessagePack list of the users that are not known (any more) as this gateway's
-- Cost     2 commands a user and 2 a bucket

local missing = {}
local ttl = integer(setup.ttl_ms)

for bucket, users in pairs(cmsgpack.unpack(ARGV[2])) do
  vouch(bucket)
  for _, user in ipairs(users) do
    local user_key = key(bucket, 'user', user)
    -- Not by the key alone: another gateway may keep it alive, and have removed this one's part while it was stalled.
    if call('HEXISTS', user_key, setup.gateway) == 1 then
      call('PEXPIRE', user_key, ttl)
    else
      missing[#missing + 1] = user
    end
  end
end

return cmsgpack.pack(missing)
