import { createHash } from 'node:crypto'

/** Reads the server's clock. Tests put their own clock in its place. */
export const READ_CLOCK = "local time = redis.call('TIME')"

/**
 * Decides and counts takes in one step, as `Window` does, on the server's clock in microseconds.
 *
 * KEYS: one per window. ARGV: for each `<limit> <window in milliseconds> <hits>`. A negative limit joins a window to
 * the next: a take counts in all joined windows or in none. Negative hits count only if the last take with positive
 * hits passed. Reply: for each window how many hits remain, -1 when it refuses, and `Take.resetSeconds`.
 *
 * A key is a list, oldest first. A take converts it to the form of its limit:
 * - log, for limits up to 1,000: the time of each hit.
 * - slices, for larger limits: `time:number`, the time of a slice's newest hit, and the hits since the key began. What
 *   counts is the difference to the first entry, which is the last expired slice, or `0:0`.
 *
 * KEYS of further windows of a row end in `:<milliseconds>`. They have the same newest hit as the key of the longest
 * window. If a key has another newest hit, because of an edit or of a gateway with another table, it becomes a copy of
 * the key of the longest window.
 *
 * Time never goes back behind the newest hit of a key. A key outlives that hit's window by a second, because the server
 * expires keys by a coarser clock that is read earlier.
 *
 * Times become text only by `%.0f`, because Lua's own conversion keeps 14 digits, and epoch microseconds have 16.
 */
export const TAKE_SCRIPT = `
local call = redis.call
local find, sub, format, floor = string.find, string.sub, string.format, math.floor
local abs, ceil, max, tonumber = math.abs, math.ceil, math.max, tonumber
${READ_CLOCK}
local clock = time[1] * 1000000 + time[2]
local MAX_LOGGED = 1000

local function seconds(us)
  return max(1, ceil(us / 1000000))
end

local function slice_of(entry)
  local colon = find(entry, ':', 1, true)
  return tonumber(sub(entry, 1, colon - 1)), tonumber(sub(entry, colon + 1))
end

local function keep(key, window)
  call('PEXPIRE', key, window / 1000 + 1000)
end

local function time_of(entry)
  return tonumber(entry) or (slice_of(entry))
end

local function follow_longest(key, window)
  local longest = string.match(key, '^(.+}):%d+$')
  local tail = longest and call('LINDEX', longest, -1)
  if not tail then return end
  local newest, own = time_of(tail), call('LINDEX', key, -1)
  if clock - newest >= window or (own and time_of(own) == newest) then return end
  call('DEL', key)
  call('RPUSH', key, unpack(call('LRANGE', longest, 0, -1)))
  keep(key, window)
end

-- The gateways' user of the store has no right to LLEN.
local function length(key, most)
  local least = 0
  while least < most do
    local middle = ceil((least + most) / 2)
    if call('LINDEX', key, middle - 1) then least = middle else most = middle - 1 end
  end
  return least
end

local function take_logged(key, newest, limit, window, cost, counted)
  local now = clock
  if newest then
    if newest > now then now = newest end
    local blocking = newest
    if limit > cost then
      local entry = call('LINDEX', key, cost - limit - 1)
      blocking = entry and tonumber(entry)
    end
    if blocking and now - blocking < window then return -1, seconds(window - (now - blocking)) end
    if now - newest >= window then call('DEL', key) end
  end
  local count = 0
  if counted then
    if cost == 1 then
      count = call('RPUSH', key, now)
    else
      local times = {}
      for i = 1, cost do times[i] = now end
      count = call('RPUSH', key, unpack(times))
    end
  end
  local oldest = now
  if count ~= cost then
    oldest = tonumber(call('LINDEX', key, 0) or now)
    while now - oldest >= window do
      call('LPOP', key)
      count = count - 1
      oldest = tonumber(call('LINDEX', key, 0))
    end
  end
  if not counted then return limit - length(key, limit - 1), seconds(window - (now - oldest)) end
  keep(key, window)
  return limit - count, seconds(window - (now - oldest))
end

local function take_sliced(key, tail, limit, window, cost, counted)
  local now = clock
  local newest, last = 0, 0
  if tail then
    newest, last = slice_of(tail)
    if newest > now then now = newest end
    if now - newest >= window then
      call('DEL', key)
      tail = false
    end
  end
  if not tail then
    if not counted then return limit, seconds(window) end
    call('RPUSH', key, '0:0', format('%.0f:%.0f', now, cost))
    keep(key, window)
    return limit - cost, seconds(window)
  end
  local head = call('LRANGE', key, 0, 1)
  local oldest, upto = slice_of(head[2])
  while now - oldest >= window do
    call('LPOP', key)
    head = call('LRANGE', key, 0, 1)
    oldest, upto = slice_of(head[2])
  end
  local _, before = slice_of(head[1])
  local total = last - before
  if total + cost > limit then
    local at, i = oldest, 1
    while last - upto + cost > limit do
      i = i + 1
      at, upto = slice_of(call('LINDEX', key, i))
    end
    return -1, seconds(window - (now - at))
  end
  if not counted then return limit - total, seconds(window - (now - oldest)) end
  local entry = format('%.0f:%.0f', now, last + cost)
  local slice = window / 100
  if floor(newest / slice) == floor(now / slice) then
    call('LSET', key, -1, entry)
    if oldest == newest then oldest = now end
  else
    call('RPUSH', key, entry)
  end
  keep(key, window)
  return limit - total - cost, seconds(window - (now - oldest))
end

local function into_slices(key, tail, window)
  local now = max(clock, tonumber(tail))
  local hits = call('LRANGE', key, 0, -1)
  call('DEL', key)
  local slice = window / 100
  local newest, count = nil, 0
  for _, hit in ipairs(hits) do
    local at = tonumber(hit)
    if now - at < window then
      if newest == nil then
        call('RPUSH', key, '0:0')
      elseif floor(newest / slice) ~= floor(at / slice) then
        call('RPUSH', key, format('%.0f:%.0f', newest, count))
      end
      newest, count = at, count + 1
    end
  end
  if newest == nil then return false end
  tail = format('%.0f:%.0f', newest, count)
  call('RPUSH', key, tail)
  keep(key, window)
  return tail
end

-- Slices with as many hits as the limit stay: they refuse everything, and as a log they could take any amount of memory.
local function into_log(key, limit, window)
  local slices = call('LRANGE', key, 0, -1)
  local newest, last = slice_of(slices[#slices])
  local now = max(clock, newest)
  local hits = {}
  local _, before = slice_of(slices[1])
  for i = 2, #slices do
    local at, upto = slice_of(slices[i])
    if now - at < window then
      if #hits == 0 and last - before >= limit then return false end
      for _ = 1, upto - before do hits[#hits + 1] = at end
    end
    before = upto
  end
  call('DEL', key)
  for _, at in ipairs(hits) do call('RPUSH', key, at) end
  keep(key, window)
  return true, hits[#hits]
end

local function take(key, limit, window, cost, counted)
  local tail = call('LINDEX', key, -1)
  if limit > MAX_LOGGED then
    if tail and tonumber(tail) then tail = into_slices(key, tail, window) end
    return take_sliced(key, tail, limit, window, cost, counted)
  end
  if not tail then return take_logged(key, nil, limit, window, cost, counted) end
  local newest = tonumber(tail)
  if newest then return take_logged(key, newest, limit, window, cost, counted) end
  if not counted then return take_sliced(key, tail, limit, window, cost, counted) end
  local converted, last = into_log(key, limit, window)
  if converted then return take_logged(key, last, limit, window, cost, counted) end
  return take_sliced(key, tail, limit, window, cost, counted)
end

-- Most takes of a command have the same few rules.
local known = {}
local function rule_of(text)
  local rule = known[text]
  if rule then return rule end
  local limit, window, cost = string.match(text, '(%S+) (%S+) (%S+)')
  limit, cost = tonumber(limit), tonumber(cost)
  rule = { abs(limit), window * 1000, abs(cost), is_joined = limit < 0, is_follower = cost < 0 }
  known[text] = rule
  return rule
end

local results = {}

local function take_each(first, last, counted)
  local allowed = true
  for i = first, last do
    local rule = rule_of(ARGV[i])
    local limit, window, cost = rule[1], rule[2], rule[3]
    if not counted then follow_longest(KEYS[i], window) end
    results[2 * i - 1], results[2 * i] = take(KEYS[i], limit, window, cost, counted)
    allowed = allowed and results[2 * i - 1] >= 0
  end
  return allowed
end

local first, passed = 1, true
for last = 1, #KEYS do
  local rule = rule_of(ARGV[last])
  if not rule.is_joined then
    local counts = passed or not rule.is_follower
    if first ~= last or not counts then counts = take_each(first, last, false) and counts end
    if counts then counts = take_each(first, last, true) end
    if not rule.is_follower then passed = counts end
    first = last + 1
  end
end
return results
`

export const TAKE_SHA = createHash('sha1').update(TAKE_SCRIPT).digest('hex')
