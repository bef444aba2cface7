-- What four scripts share: the keys of a user, reading and writing its record, and telling the gateways.
--
-- Keys, all of one bucket b in the same hash slot ({b} is the hash tag):
--   <prefix>:{b}:user:<user>   hash, TTL: gateway -> "<set_at_us> <show> <devices> <text>", or "left <until_ms>" when it only
--                              keeps the user's place: until then the loss of its part is held back. Exists while the user
--                              is online, and while a place is kept.
--   <prefix>:{b}:seen:<user>   string, kept for `last_seen`: the view's line; while a loss is held back, a second line
--                              "<hold_until_ms> <the line shown until then>"; and when that waits for gateways to join the
--                              user again, a third that names them.
--   <prefix>:{b}:gateways      hash, TTL: gateway -> until when (ms) it vouches for its users of this bucket; and
--                              "<gateway> lost" -> when (ms) its part of a user was found lapsed, which it is to be told.
--
-- A line is "version state since show devices gateways text"; "." stands for nothing.
-- KEYS[1] is any key of the bucket: it routes the call. The other keys are derived from it, in the same slot. In a cluster
-- KEYS[2] is a key that never exists, so that no script runs while the slot is on its way to another server.
-- ARGV[1] is a MessagePack map: prefix, gateway, ttl_ms, grace_ms, last_seen_ms, publish (PUBLISH or SPUBLISH), channel,
--   and
--   away_since_ms, return_until_ms  while the store has only just come back: since when it was away, and until when what could
--               not be told meanwhile may still come; else 0;
--   came_after  { since_ms, back_ms }, from when to when it was away before, of which this gateway was only told, since it came after; else 0, 0: it has
--               nothing of its own that it could not tell meanwhile;
--   sent_ms, answered_ms    when the call was sent, or 0 when it waited for a connection, and when its sender was answered
--               last before, by this clock: of one that had to wait after it was sent, the sender could not know yet that
--               the store was away;
--   born_us     since when the store remembers: the version of a user of whom it has no trace;
--   late        gateway -> when (ms) it last renewed its lease, of those that are late with it and may be dead: their
--               users were alive until then, whenever they were last vouched for;
--   late_until_ms, good_until_ms  until when that is the latest about leases: all others are good, and the users of their
--               gateways live until the second at least;
--   doubt_until_ms  until when nobody has lapsed, since the store may have been away just before this gateway came, or 0.
--
-- After the store was away, what gateways had to tell it comes in any order. Within RETURN_MS they have told it, or sooner, and
-- one that was stopped just then may need longer (the caller knows): until then
-- losses and byes are held back, since the user may be on another gateway as well, and so are losses whose hold ended
-- meanwhile, since nobody could come back. Living gateways could not vouch either: until then nobody has lapsed.

local call = redis.call
local setup = cmsgpack.unpack(ARGV[1])
local time = call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
local news = {}
local STALE_MS, RETURN_MS = 1000, 4000
local waited_ms = setup.sent_ms > 0 and now_ms - setup.sent_ms or 0
local stale = waited_ms > STALE_MS
local away_since_ms, return_until = setup.away_since_ms, setup.return_until_ms
if stale then
  away_since_ms = away_since_ms > 0 and math.min(away_since_ms, setup.answered_ms) or setup.answered_ms
  return_until = math.max(return_until, now_ms + RETURN_MS)
end
local revive_since, revive_until = away_since_ms, return_until
if setup.came_after[2] > 0 then
  revive_since = away_since_ms > 0 and math.min(away_since_ms, setup.came_after[1]) or setup.came_after[1]
  revive_until = math.max(return_until, setup.came_after[2] + RETURN_MS)
end
local forgive_until = math.max(return_until, setup.came_after[2] + RETURN_MS, setup.doubt_until_ms)
-- For how long this call vouches: one that had to wait may be that of a gateway that died meanwhile.
local vouch_ms = stale and math.max(setup.ttl_ms - waited_ms, math.min(RETURN_MS, setup.ttl_ms)) or setup.ttl_ms

local function integer(number)
  return string.format('%.0f', number)
end

local NO_TRACE = integer(setup.born_us) .. ' offline . . . . '

local function key(bucket, kind, user)
  return setup.prefix .. ':{' .. bucket .. '}:' .. kind .. ':' .. user
end

local function vouchers_key(bucket)
  return setup.prefix .. ':{' .. bucket .. '}:gateways'
end

local function parse(line)
  local version, state, since, show, devices, gateways, text =
    string.match(line, '^(%d+) (%a+) (%S+) (%S+) (%S+) (%S+) (.*)$')
  return {
    version = tonumber(version), state = state, since = since,
    show = show, devices = devices, gateways = gateways, text = text,
  }
end

local function line_of(view)
  return integer(view.version) .. ' ' .. view.state .. ' ' .. view.since .. ' ' .. view.show .. ' '
    .. view.devices .. ' ' .. view.gateways .. ' ' .. view.text
end

-- Uses a key of ours. One to which somebody else gave another type is as good as lost: it would have all that is told or asked
-- together with its user refused for ever.
local function own(command, name, ...)
  local answer = redis.pcall(command, name, ...)
  if type(answer) ~= 'table' or not answer.err then
    return answer
  end
  if string.find(answer.err, 'WRONGTYPE', 1, true) then
    redis.log(redis.LOG_WARNING, 'presence: ' .. name .. ' was given another type by somebody, and is removed')
    -- Removes it, with no permission besides those that are needed anyway.
    call('PEXPIRE', name, 0)
  end
  return call(command, name, ...)
end

-- What is told of a user: { user, line, cause or "", due_ms or 0, hold_ms, line shown until then or "" }.
local function row_of(user, record, cause, due_ms)
  local held = record.before ~= nil
  return { user, line_of(record.view), cause, due_ms, held and record.hold_until - now_ms or 0,
    held and line_of(record.before) or '' }
end

local function looks_like(a, b)
  return a.state == b.state and a.show == b.show and a.devices == b.devices and a.text == b.text
end

-- The record of a user: `view`; `before` with `hold_until`, 0 when nothing is held back, and `stored_until`, the same as others
-- read it; and `awaited`, the gateways that the hold waits for, '' when it waits for none. `is_new` when there is none.
local function load_record(bucket, user)
  local stored = own('GET', key(bucket, 'seen', user))
  local line, hold_until, before, awaited = string.match(stored or '', '^([^\n]*)\n(%d+) ([^\n]*)\n?(.*)$')
  local view = stored and parse(line or stored)
  -- None, or what none of us wrote.
  if not view or not view.version then
    return { view = parse(NO_TRACE), hold_until = 0, stored_until = 0, awaited = '', is_new = true }
  end
  if not line then
    return { view = view, hold_until = 0, stored_until = 0, awaited = '' }
  end
  hold_until = tonumber(hold_until)
  local record = { view = view, hold_until = hold_until, stored_until = hold_until, awaited = awaited }
  if record.hold_until > revive_since and revive_until > now_ms then
    record.hold_until = math.max(record.hold_until, revive_until)
  end
  if record.hold_until > now_ms then
    record.before = parse(before)
  else
    record.hold_until, record.awaited = 0, ''
  end
  return record
end

-- What a gateway can tell of a user who is gone.
local LOSSES = { bye = true, closed = true, silent = true, drained = true }

-- A hold that would end so little earlier is left as it is.
local EARLIER_MS = 100

local function save_record(bucket, user, record)
  local stored = line_of(record.view)
  if record.before then
    stored = stored .. '\n' .. integer(record.hold_until) .. ' ' .. line_of(record.before)
    if record.awaited ~= '' then
      stored = stored .. '\n' .. record.awaited
    end
  end
  call('SET', key(bucket, 'seen', user), stored, 'PX', integer(setup.last_seen_ms))
end

local FORGET_MS = 24 * 3600 * 1000
-- A gateway that vouched so lately has a lease, good or late, unless it gave it up: then it has no users.
local LEASES_KEPT_MS = 1800 * 1000

-- Gateways have a new id at each start: those that stopped long ago are forgotten when a new one first vouches.
local function forget_old(vouchers)
  local flat = call('HGETALL', vouchers)
  for i = 1, #flat, 2 do
    if tonumber(flat[i + 1]) < now_ms - FORGET_MS then
      call('HDEL', vouchers, flat[i])
    end
  end
end

-- This gateway vouches for its users of a bucket for the TTL.
local function vouch(bucket)
  local vouchers = vouchers_key(bucket)
  if own('HSET', vouchers, setup.gateway, integer(now_ms + vouch_ms)) == 1 then
    forget_old(vouchers)
  end
  call('PEXPIRE', vouchers, integer(setup.last_seen_ms))
end

-- Until when (ms) a gateway's users of a bucket count as alive: as long as it vouches for them, and for the TTL since it last
-- renewed its lease: with a good one it lives, and will assert what it could not vouch for while the store was away. 0 when it
-- is forgotten, as its lease is when it stopped long ago.
local function alive_until(bucket, gateway)
  local vouched, renewed = tonumber(own('HGET', vouchers_key(bucket), gateway) or 0), setup.late[gateway]
  if renewed then
    return math.max(vouched, renewed + setup.ttl_ms)
  end
  local is_good = setup.late_until_ms > now_ms and vouched > now_ms - LEASES_KEPT_MS
  return is_good and math.max(vouched, setup.good_until_ms) or vouched
end

-- Until when a gateway keeps the user's place that has no session of the user any more; nil where it has.
local function kept_until(contribution)
  return tonumber(string.match(contribution, '^left (%d+)$'))
end

-- Whether any gateway has a session of the user.
local function is_anywhere(contributions)
  for _, contribution in pairs(contributions) do
    if not kept_until(contribution) then
      return true
    end
  end
  return false
end

-- Notes for each gateway that a view names (but one), and that has no part in the user any more, that this is so: it may
-- live after all, and then has to join the user again. Answers those that may.
local function note_lost(bucket, view, contributions, but)
  local awaited = {}
  if view.gateways ~= '.' and view.gateways ~= but then
    for gateway in string.gmatch(view.gateways, '[^,]+') do
      if gateway ~= but and not contributions[gateway] then
        call('HSET', vouchers_key(bucket), gateway .. ' lost', integer(now_ms))
        if alive_until(bucket, gateway) > now_ms then
          awaited[#awaited + 1] = gateway
        end
      end
    end
  end
  return table.concat(awaited, ',')
end

-- What the gateways contribute: gateway -> contribution, without those that count as alive no more, which are removed.
-- Then until when the others but this one do, and until when the last of the removed did that had a session, if any was.
local function load_contributions(bucket, user)
  local flat = own('HGETALL', key(bucket, 'user', user))
  local contributions, until_ms, lapsed = {}, 0, nil
  for i = 1, #flat, 2 do
    local gateway = flat[i]
    local kept, is_this = kept_until(flat[i + 1]), gateway == setup.gateway
    local alive = kept or is_this and 0 or alive_until(bucket, gateway)
    if alive > now_ms or is_this and not kept then
      contributions[gateway] = flat[i + 1]
      until_ms = is_this and until_ms or math.max(until_ms, alive)
    else
      call('HDEL', key(bucket, 'user', user), gateway)
      if not kept then
        lapsed = math.max(lapsed or 0, alive)
      end
    end
  end
  return contributions, until_ms, lapsed
end

-- The view that contributions amount to: the devices of all, the status that was set last.
-- A place that is kept keeps the key alive and adds nothing.
local function merge(contributions)
  local view = { state = 'offline', since = '.', show = '.', devices = '.', gateways = '.', text = '' }
  local latest, shown, devices, gateways = -1, '.', {}, {}
  for gateway, contribution in pairs(contributions) do
    local set_at, show, labels, text = string.match(contribution, '^(%d+) (%S+) (%S+) (.*)$')
    -- Not where it is a place, or what none of us wrote.
    if set_at then
      gateways[#gateways + 1] = gateway
      for label in string.gmatch(labels, '[^,.]+') do
        devices[label] = true
      end
      if tonumber(set_at) > latest then
        latest, shown, view.text = tonumber(set_at), show, text
      end
    end
  end
  if #gateways == 0 then
    return view
  end
  table.sort(gateways)
  view.gateways = table.concat(gateways, ',')
  if shown == 'invisible' then
    view.text = ''
    return view
  end
  local labels = {}
  for label in pairs(devices) do
    labels[#labels + 1] = label
  end
  table.sort(labels)
  view.state = 'online'
  view.show = shown == 'online' and '.' or shown
  view.devices = #labels > 0 and table.concat(labels, ',') or '.'
  return view
end

-- A gateway that has told of a user is waited for no more, and neither is one that is dead by now; the hold lasts for as long
-- as any of the rest may live. Answers whether it was waited for, and nobody is any more; and whether the hold became shorter.
local function take_answer(bucket, record, gateway)
  local rest, rest_until, was_awaited = {}, 0, false
  for awaited in string.gmatch(record.awaited, '[^,]+') do
    local alive = alive_until(bucket, awaited)
    if awaited == gateway then
      was_awaited = true
    elseif alive > now_ms then
      rest[#rest + 1] = awaited
      rest_until = math.max(rest_until, alive + setup.grace_ms)
    end
  end
  if not was_awaited then
    return false, false
  end
  record.awaited = table.concat(rest, ',')
  rest_until = math.max(rest_until, forgive_until)
  local shorter = #rest > 0 and rest_until < record.hold_until - EARLIER_MS
  if shorter then
    record.hold_until = rest_until
  end
  return #rest == 0, shorter
end

-- Makes `view` the user's view. `change` says why: cause, since_ms, hold_until (0 when the change was deliberate), own_until,
-- the same without what others owe the user, due_ms, when watchers should see it if all went well, and `awaited`, the gateways
-- that may join a lost user again, or ''.
--
-- The version grows only with what a watcher could tell apart, so that nothing an invisible user does shows.
-- While a loss is held back, a user who comes back piece by piece stays held until it looks as before, or is out of time;
-- a bye that comes late, after the loss that it explains, ends the hold, or shortens it to its own, and so does any loss on the
-- one gateway where the user was; and a later loss makes it longer, and is from then on the one to be explained.
-- A hold that waits for gateways ends, whatever they tell, when the last of them has or is dead, and not before.
local function commit(bucket, user, record, view, change)
  local old = record.view
  local visible = not looks_like(view, old)
  local hold, awaited = record.before, record.awaited
  local answered, shorter = false, false
  if change.cause ~= 'expired' then
    answered, shorter = take_answer(bucket, record, setup.gateway)
  end
  local hold_until = change.hold_until
  if record.awaited ~= '' and LOSSES[change.cause] then
    hold_until = math.max(hold_until, record.hold_until)
  end
  if visible then
    view.version = math.max(old.version + 1, now_us)
    view.since = old.since
    if view.state ~= old.state then
      view.since = integer(change.since_ms)
    end
    if hold_until > now_ms then
      local is_all = answered or change.cause == 'bye'
      if hold and change.own_until >= record.hold_until then
        hold.gateways = setup.gateway
      end
      record.before = hold or old
      record.hold_until = is_all and hold_until or math.max(record.hold_until, hold_until)
    elseif answered
      or not (hold and change.cause == 'joined' and hold.state == 'online' and view.state == 'online') then
      record.before, record.hold_until = nil, 0
    end
    if hold and view.state == hold.state then
      view.since = hold.since
    end
    -- Who was not here has nothing to lose. Who was invisible has: another session would show without the lost one.
    if record.before and (record.before.gateways == '.' or looks_like(view, record.before)) then
      record.before, record.hold_until = nil, 0
    end
    if change.awaited ~= '' then
      record.awaited = change.awaited
    end
  else
    view.version, view.since = old.version, old.since
    local is_loss = hold and view.state == 'offline' and LOSSES[change.cause]
    local explains = answered or is_loss and (change.cause == 'bye' or hold.gateways == setup.gateway)
    local released = hold and explains and hold_until < record.hold_until - EARLIER_MS
    if released then
      record.hold_until = hold_until
      record.before = hold_until > now_ms and hold or nil
    elseif is_loss and change.cause ~= 'bye' and hold_until >= record.stored_until then
      -- Nobody needs to be told: whoever holds the loss back asks again before it is shown.
      if change.own_until >= record.hold_until then
        hold.gateways = setup.gateway
      end
      record.hold_until = math.max(record.hold_until, hold_until)
      save_record(bucket, user, record)
    elseif record.awaited ~= awaited then
      record.hold_until = is_loss and math.max(record.hold_until, hold_until) or record.hold_until
      save_record(bucket, user, record)
    end
    if view.gateways == old.gateways and not released and not shorter then
      return
    end
  end
  record.view = view
  save_record(bucket, user, record)
  local due_ms = change.due_ms
  if record.before and (change.cause == 'joined' or change.cause == 'status') then
    due_ms = math.max(due_ms, record.hold_until)
  end
  news[#news + 1] = row_of(user, record, change.cause, due_ms)
  return news[#news]
end

-- Until when a user counts as alive who is on the gateways that a view names: 0 when that is forgotten. That may be later
-- than now, when it is only the user's key that is gone: until then they find out, and join the user again.
local function last_alive(bucket, view)
  local last = 0
  for gateway in string.gmatch(view.gateways, '[^,]+') do
    last = math.max(last, alive_until(bucket, gateway))
  end
  return last
end

-- Until when the place of a user is kept by gateways (but one); 0 when by none.
local function place_kept_until(contributions, but)
  local kept = 0
  for gateway, contribution in pairs(contributions) do
    if gateway ~= but then
      kept = math.max(kept, kept_until(contribution) or 0)
    end
  end
  return kept
end

-- A user who is alive though there is no line about it, which a Redis that runs out of memory may have evicted.
local function restore(bucket, user, record)
  local view = merge(load_contributions(bucket, user))
  if view.gateways ~= '.' then
    return commit(bucket, user, record, view, {
      cause = 'joined', since_ms = now_ms, hold_until = 0, own_until = 0, due_ms = now_ms, awaited = '',
    })
  end
end

-- A user of whom nobody vouches any more, or not all that did: brings the record up to the truth, and answers the row
-- that tells of it, if there is any. The usual case, a living user of one gateway, costs one HLEN: that the key is there is
-- enough, unless the gateway is late with its lease. Then another may have kept the key alive, for a user who was with it as well.
local function settle(bucket, user, record)
  if record.view.gateways == '.' then
    return record.is_new and restore(bucket, user, record)
  end
  local contributions, _, lapsed = {}, nil, nil
  local parts = own('HLEN', key(bucket, 'user', user))
  if parts == 0 then
    lapsed = last_alive(bucket, record.view)
  elseif parts > 1 or setup.late[record.view.gateways] or string.find(record.view.gateways, ',', 1, true) then
    contributions, _, lapsed = load_contributions(bucket, user)
  end
  if not lapsed then
    return
  end
  return commit(bucket, user, record, merge(contributions), {
    cause = 'expired',
    awaited = note_lost(bucket, record.view, contributions),
    since_ms = lapsed > 0 and lapsed - setup.ttl_ms or tonumber(record.view.since) or now_ms,
    hold_until = math.max(lapsed + setup.grace_ms, forgive_until, place_kept_until(contributions)),
    own_until = 0,
    due_ms = (lapsed > 0 and lapsed or now_ms) + setup.grace_ms,
  })
end

-- Tells every gateway, in one message, of all that was committed: { now_ms, rows }.
local function publish()
  if #news > 0 then
    call(setup.publish, setup.channel, cmsgpack.pack({ now_ms, news }))
  end
end
