-- Vouches for a batch of users that this gateway joined before: they stay alive for another TTL.
--
-- ARGV[2]  MessagePack map: bucket -> list of the keys of users
-- Result   MessagePack list of the keys of those that are to be joined again: keys that are not there, and all of a bucket
--          in which this gateway's part of any user was found lapsed. That it has a part in a key that is there, or had one
--          just now, is thereby certain, and need not be asked. Keys and not users, since to build them here would cost a third more.
-- Cost     1 command a user and 3 a bucket; two more a user in those of a bucket's rounds that keep what is known of users

local missing = {}
local ttl = integer(vouch_ms)
local own_part_lost = setup.gateway .. ' lost'

-- What is known of a user is written when it changes, and would be forgotten of one who is online for long without a change:
-- four times in `last_seen`, bucket by bucket, it is kept on for as long again. Not of who is invisible, and is forgotten as
-- who has left.
local rounds = math.max(math.floor(setup.last_seen_ms / setup.ttl_ms / 4), 1)
local round = math.floor(now_ms / setup.ttl_ms) % rounds

for bucket, keys in pairs(cmsgpack.unpack(ARGV[2])) do
  local lost = own('HDEL', vouchers_key(bucket), own_part_lost) == 1
  vouch(bucket)
  local keeps = bucket % rounds == round
  local name_at = #key(bucket, 'user', '') + 1
  for i = 1, #keys do
    if keeps then
      local seen = key(bucket, 'seen', string.sub(keys[i], name_at))
      if string.match(own('GET', seen) or '', '^%d+ online ') then
        call('PEXPIRE', seen, integer(setup.last_seen_ms))
      end
    end
    if call('PEXPIRE', keys[i], ttl) == 0 or lost then
      missing[#missing + 1] = keys[i]
    end
  end
end

return cmsgpack.pack(missing)
