-- Gives users a version beyond one that watchers were shown, where the store's is older: it has lost what they were told, and
-- what it says now would not be believed.
--
-- ARGV[2]  MessagePack list of { bucket, user, version }
-- Result   how many users have a new version
-- Cost     1 command a user, and 1 more for each with a new version

for _, asked in ipairs(cmsgpack.unpack(ARGV[2])) do
  local bucket, user, shown = unpack(asked)
  local record = load_record(bucket, user)
  if not record.is_new and record.view.version < shown then
    record.view.version = math.max(shown + 1, now_us)
    save_record(bucket, user, record)
    news[#news + 1] = row_of(user, record, '', 0)
  end
end

publish()
return #news
