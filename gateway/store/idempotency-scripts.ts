import { createHash } from 'node:crypto'
import { READ_CLOCK } from './take-script.ts'

export interface Script {
  readonly text: string
  readonly sha: string
}

/**
 * KEYS: a key, and the sorted set of its caller's keys with their expiry times. ARGV: the id of the key, a token of the
 * request, then the arguments of each script. A key is `<state> <end of the lease> <token> <check> <fingerprint>
 * <rest>`. The state `again` means begun after `unknown`. The end of the lease is in epoch milliseconds of the server.
 * The token names the request that began the key, the check names the secret. The rest is the sealed id of the request,
 * and with `done` its response. Older versions left the rest empty.
 */
const COMMON = `
local call = redis.call
${READ_CLOCK}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, all, id = KEYS[1], KEYS[2], ARGV[1]
local value = call('GET', key)
local state, lease, token, from, check, fingerprint, at
if value then
  state, lease, token, from, check, fingerprint, at = string.match(value, '^(%l+) (%d+) (%S+) ()(%S+) (%S+) ()')
end

local function put(state, token, lease, keep, rest)
  call('SET', key, string.format('%s %.0f %s ', state, now + lease, token) .. rest, 'PX', lease + keep)
  call('ZADD', all, now + lease + keep, id)
  if call('PEXPIRE', all, lease + keep, 'NX') == 0 then call('PEXPIRE', all, lease + keep, 'GT') end
end
`

/**
 * Begins a key. ARGV: check, fingerprint, lease and keep in milliseconds, the caller's maximum of keys, `1` if an unknown
 * key may be begun again, rest. Reply: the outcome of `Begun`, and after `done` and `unknown` the rest; or `foreign`
 * and the check of another secret or version. A key becomes unknown only when it is asked for after its lease. Until
 * then its request may finish it.
 */
export const BEGIN_SCRIPT: Script = script(`
${COMMON}
local lease_ms, keep_ms = tonumber(ARGV[5]), tonumber(ARGV[6])
if value then
  if check ~= ARGV[3] then return { 'foreign', check or '' } end
  if fingerprint ~= ARGV[4] then return { 'reused' } end
  if state == 'done' then return { 'done', string.sub(value, at) } end
  if state ~= 'unknown' and now < tonumber(lease) then return { 'in_progress' } end
  if ARGV[8] ~= '1' then
    if state ~= 'unknown' then put('unknown', token, 0, keep_ms, string.sub(value, from)) end
    return { 'unknown', string.sub(value, at) }
  end
else
  -- At most 100 at once. That is enough, because a request adds only one.
  local over = call('ZRANGEBYSCORE', all, '-inf', now, 'LIMIT', 0, 100)
  if #over > 0 then call('ZREM', all, unpack(over)) end
  if call('ZCARD', all) >= tonumber(ARGV[7]) then return { 'too_many' } end
end
put(value and 'again' or 'begun', ARGV[2], lease_ms, keep_ms, ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[9])
return { 'begun' }
`)

/**
 * Ends a key, or renews its lease (`begun`). May run again. Writes a key that the store has lost. ARGV: `begun`,
 * `free`, `unknown` or `done`; lease and keep in milliseconds; check, fingerprint, rest. Reply: 1, or 0 when another
 * request has the key, or was told that the key is unknown.
 */
export const FINISH_SCRIPT: Script = script(`
${COMMON}
local kind = ARGV[3]
if value then
  if token ~= ARGV[2] then return 0 end
  if state == kind and kind == 'done' then return 1 end
  if state ~= 'begun' and state ~= 'again' then return 0 end
end
if kind == 'free' and state ~= 'again' then
  call('DEL', key)
  call('ZREM', all, id)
  return 1
end
if kind == 'free' then kind = 'unknown' end
if kind == 'begun' and state then kind = state end
put(kind, ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6])
return 1
`)

function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
