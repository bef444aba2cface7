-- Writes what one gateway contributes to each of a batch of users, and tells every gateway of those that changed.
--
-- ARGV[2]  MessagePack list of claims:
--          { bucket, user, contribution, status_age_ms, cause, hold_ms, due_in_ms, silence_ms, online_ms }
--          contribution: "<show> <devices> <text>", "drained", or "" when the gateway has no session left;
--          status_age_ms: how long ago the status was set, -1 when none was;
--          hold_ms: for how much longer a loss is held back, 0 when the change was deliberate;
--          due_in_ms: when watchers should see the change if all goes well, negative when that is past.
-- Result   how many users changed
-- Cost     about 8 commands a user

local vouched = {}

local function vouch_once(bucket)
  if not vouched[bucket] then
    vouched[bucket] = true
    vouch(bucket)
  end
end

-- A user who has come here, or has signed out, needs nobody to keep the place any more.
local function drop_places(user_key, contributions)
  for gateway, contribution in pairs(contributions) do
    if kept_until(contribution) and gateway ~= setup.gateway then
      call('HDEL', user_key, gateway)
      contributions[gateway] = nil
    end
  end
end

-- Whether a user has come here: there was no session before, or there is one more that shows.
local function has_come(cause, contribution, before)
  return not before or kept_until(before) or cause == 'joined' and string.match(before, '^%d+ (.*)$') ~= contribution
end

-- When a status was set, in µs; 0 when none was, which is older than any.
local function set_at(status_age_ms)
  return status_age_ms < 0 and '0' or integer(now_us - status_age_ms * 1000)
end

local claims = cmsgpack.unpack(ARGV[2])

-- A full Redis refuses a script at its first write, if that can take memory, and never after: so that it takes all of a
-- batch or nothing, this one comes first. Else losses would be taken, and the joins refused that go with them.
vouch_once(claims[1][1])

for _, claim in ipairs(claims) do
  local bucket, user, contribution, status_age_ms, cause, hold_ms, due_in_ms, silence_ms, online_ms = unpack(claim)
  local user_key = key(bucket, 'user', user)
  if stale and contribution == '' then
    silence_ms = silence_ms + waited_ms
    due_in_ms = due_in_ms - waited_ms
  end
  local record = load_record(bucket, user)
  local contributions, until_ms = load_contributions(bucket, user)
  if record.is_new and next(contributions) then
    -- Else nobody would be told of what changes now.
    restore(bucket, user, record)
  elseif not is_anywhere(contributions) and record.view.gateways ~= setup.gateway then
    -- The key is gone, and gateways that had a part in it may live: what this one tells is not all.
    settle(bucket, user, record)
  end
  note_lost(bucket, record.view, contributions, setup.gateway)
  local comes = contribution ~= '' and contribution ~= 'drained'
    and has_come(cause, contribution, contributions[setup.gateway])
  local had_place = contributions[setup.gateway] and kept_until(contributions[setup.gateway])
  contributions[setup.gateway] = nil
  if contribution ~= '' and contribution ~= 'drained' then
    contribution = set_at(status_age_ms) .. ' ' .. contribution
    vouch_once(bucket)
    call('HSET', user_key, setup.gateway, contribution)
    call('PEXPIRE', user_key, integer(vouch_ms))
    contributions[setup.gateway] = contribution
  elseif hold_ms > 0 and (contribution == 'drained' or had_place or is_anywhere(contributions)) then
    -- Whoever loses the user's last session may have lost it sooner than this one was, and tell of it later.
    local until_then = now_ms + hold_ms
    contributions[setup.gateway] = 'left ' .. integer(until_then)
    call('HSET', user_key, setup.gateway, contributions[setup.gateway])
    call('PEXPIREAT', user_key, integer(math.max(until_ms, until_then)))
  else
    call('HDEL', user_key, setup.gateway)
    if until_ms > 0 then
      call('PEXPIREAT', user_key, integer(until_ms))
    end
  end
  if comes or cause == 'bye' then
    drop_places(user_key, contributions)
  end
  local own_until = hold_ms > 0 and now_ms + hold_ms or 0
  local hold_until = own_until
  if cause ~= 'joined' and cause ~= 'status' then
    hold_until = math.max(hold_until, return_until, place_kept_until(contributions, setup.gateway))
  end
  local view = merge(contributions)
  if record.view.state == 'offline' and record.view.gateways ~= '.' then
    -- Until now the user was here and invisible, and for how long is nobody's business.
    online_ms = 0
  end
  commit(bucket, user, record, view, {
    cause = cause,
    since_ms = now_ms - (view.state == 'online' and online_ms or silence_ms),
    hold_until = hold_until,
    own_until = own_until,
    awaited = '',
    due_ms = math.max(now_ms + due_in_ms, 0),
  })
end

publish()
return #news
