-- Vouches for a batch of users that this gateway joined before: they stay alive for another TTL.
--
-- ARGV[2]  MessagePack map: bucket -> list of users
-- Result   MessagePack list of the users that are to be joined again: those of whom there is no key, and all of a bucket in
--          which this gateway's part of any user was found lapsed. That it had a part in a key that is there is thereby
--          certain, and need not be asked.
-- Cost     1 command a user and 3 a bucket

local missing = {}
local ttl = integer(setup.ttl_ms)
local own_part_lost = setup.gateway .. ' lost'

for bucket, users in pairs(cmsgpack.unpack(ARGV[2])) do
  local lost = call('HDEL', vouchers_key(bucket), own_part_lost) == 1
  local prefix = key(bucket, 'user', '')
  vouch(bucket)
  for i = 1, #users do
    if call('PEXPIRE', prefix .. users[i], ttl) == 0 or lost then
      missing[#missing + 1] = users[i]
    end
  end
end

return cmsgpack.pack(missing)
