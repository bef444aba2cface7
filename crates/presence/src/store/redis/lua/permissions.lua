-- Tells which of a list of commands this user may not run. Runs none of them. Stands alone.
--
-- KEYS[1]  any key of ours: it routes the call
-- ARGV[1]  MessagePack list of commands, each a list of words
-- Result   MessagePack list of the places, from 0, of those that are not allowed; none when an old Redis cannot tell
-- Cost     one look-up a command

local missing = {}
if redis.acl_check_cmd then
  for place, words in ipairs(cmsgpack.unpack(ARGV[1])) do
    if not redis.acl_check_cmd(unpack(words)) then
      missing[#missing + 1] = place - 1
    end
  end
end
return cmsgpack.pack(missing)
