-- Reads where each of a batch of users stands. A user whose gateway stopped vouching is found offline, and every
-- gateway is told.
--
-- ARGV[2]  MessagePack list of { bucket, user }
-- Result   MessagePack list, in the order asked, of rows (see row_of); the cause is "" but for those found offline now
-- Cost     2 commands a user

local rows = {}

-- The usual cases need no look into the line: a user never seen, offline, or alive on one gateway, of which alone there is a
-- part in the key. Where another keeps the user's place, the key outlives the part, and so it may that of a gateway that is
-- late with its lease.
local function plain_line(bucket, user)
  local stored = own('GET', key(bucket, 'seen', user))
  if not stored then
    return own('HLEN', key(bucket, 'user', user)) == 0 and NO_TRACE
  end
  local gateways = string.match(stored, '^%d+ %a+ %S+ %S+ %S+ ([^ ,]+) [^\n]*$')
  if gateways and (gateways == '.' or not setup.late[gateways] and own('HLEN', key(bucket, 'user', user)) == 1) then
    return stored
  end
end

local function row(bucket, user)
  local line = plain_line(bucket, user)
  if line then
    return { user, line, '', 0, 0, '' }
  end
  local record = load_record(bucket, user)
  return settle(bucket, user, record) or row_of(user, record, '', 0)
end

for i, asked in ipairs(cmsgpack.unpack(ARGV[2])) do
  rows[i] = row(asked[1], asked[2])
end

publish()
return cmsgpack.pack(rows)
