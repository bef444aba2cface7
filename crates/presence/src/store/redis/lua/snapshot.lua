-- Reads where each of a batch of users stands. A user whose gateway stopped vouching is found offline, and every
-- gateway is told.
--
-- ARGV[2]  MessagePack list of { bucket, user }
-- Result   MessagePack list, in the order asked: { user, line, "", hold_ms, line shown until then or "" }
-- Cost     2 commands a user

local rows = {}

for i, asked in ipairs(cmsgpack.unpack(ARGV[2])) do
  local bucket, user = unpack(asked)
  local record = load_record(bucket, user)
  settle(bucket, user, record)
  rows[i] = { user, line_of(record.view), '', record.hold_until > 0 and record.hold_until - now_ms or 0,
    record.before and line_of(record.before) or '' }
end

publish()
return cmsgpack.pack(rows)
