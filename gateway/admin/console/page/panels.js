/** @import { ConsoleState, Count, LimitState, PartState, AttestationState } from '../wire.ts' */
/** @import { Fact, Value } from './elements.js' */
import { byId, number, setText, showFacts, showLines, showTable } from './elements.js'
import { duration, latency, megabytes, milliseconds, rate, time, whole } from './words.js'

/** Certificates that expire sooner are marked. */
const SOON_DAYS = 21
const DAY_SECONDS = 86_400
const MUCH_LAG = 1000
const MUCH_SEAL_LAG_SECONDS = 10
/** A lag is marked when it exceeds the attestation interval by this. */
const MUCH_ATTESTATION_DELAY_SECONDS = 600
/** Keys are fetched every 5 minutes. */
const OLD_KEYS_SECONDS = 660

/** @param {ConsoleState} state */
export function showPanels(state) {
  setText(byId('version'), state.version)
  setText(byId('host'), `${state.host}, ${location.host}`)
  showAttention(state)
  showLimits(state)
  showIdempotency(state)
  showTraffic(state)
  showTrail(state)
  showStores(state)
  showProcess(state)
  showKeys(state)
  showConfig(state)
}

/** @param {ConsoleState} state */
export function stateOf({ unready, degraded, attention }) {
  if (unready !== undefined) return 'not ready'
  if (attention.length > 0) return 'needs attention'
  return degraded === undefined ? 'ready' : 'degraded'
}

/** @param {ConsoleState} state */
export function showHealth(state) {
  const { unready, degraded, attention } = state
  const isBad = unready !== undefined || attention.some(({ severity }) => severity === 'page')
  const word = stateOf(state)
  const health = byId('health')
  health.className = `pill ${isBad ? 'bad' : word === 'ready' ? 'good' : 'warn'}`
  const reason = unready ?? (word === 'degraded' ? degraded : undefined)
  setText(health, reason === undefined ? word : `${word}: ${reason}`)
}

/** @param {ConsoleState} state */
function showAttention({ attention }) {
  byId('attention-none').hidden = attention.length > 0
  showLines(
    'attention',
    attention.map(({ alert, severity, text, cause, untilMs, sinceMs, endedMs }) => ({
      href: `/runbook#${alert.toLowerCase()}`,
      link: { text, is: severity === 'page' ? 'bad' : 'warn' },
      detail: untilMs === undefined ? (cause ?? '') : expiry(untilMs / 1000),
      since: time(sinceMs, (since) => `since ${since}${until(endedMs)}`),
    })),
  )
}

/** @param {number | undefined} ms */
function until(ms) {
  return ms === undefined ? '' : ` until ${new Date(ms).toLocaleTimeString('sv')}`
}

/** @param {ConsoleState} state */
function showLimits({ limits }) {
  showTable(
    'limits',
    ['Limit', 'Path', 'Allows', 'Nearest caller', 'Let through', 'Refused', 'Callers'],
    limits.rows.map(({ name, path, limit, window, per, mode, nearest, ...row }) => [
      mode === 'shadow' ? `${name} (shadow)` : name,
      path,
      `${whole(limit)} in ${window} per ${per}`,
      { near: nearest[0]?.hits ?? 0, of: nearest[0]?.limit ?? limit },
      number(rate(row.allowedPerSecond)),
      number(rate(row.refusedPerSecond)),
      number(whole(row.callers)),
    ]),
    'No limits: requests are not counted.',
    limits.more,
  )
  showNearest(limits.rows)
}

/** @param {readonly LimitState[]} rows */
function showNearest(rows) {
  const choice = byId('near-limit', HTMLSelectElement)
  const names = rows.map(({ name }) => name).sort()
  const shown = [...choice.options].map(({ value }) => value)
  if (shown.join('\n') !== names.join('\n')) {
    const chosen = choice.value || rows[0]?.name
    choice.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)))
  }
  choice.disabled = rows.length === 0
  const row = rows.find(({ name }) => name === choice.value)
  showTable(
    'near',
    ['Caller', 'Used'],
    (row?.nearest ?? []).map(({ caller, hits, limit }) => [caller, { near: hits, of: limit }]),
    'Nobody is counted now.',
  )
}

const NOT_REFUSED = ['begun', 'replayed']

/** @param {ConsoleState} state */
function showIdempotency({ idempotency }) {
  const card = byId('idempotency')
  card.hidden = idempotency === undefined
  if (idempotency === undefined) return
  const { outcomes, keys, bytes, maxKeys, maxBytes } = idempotency
  showTable(
    'outcomes',
    ['Outcome', 'Rate', 'Since start'],
    outcomes.map(({ name, perSecond, total }) => {
      const text = NOT_REFUSED.includes(name) ? name : `refused: ${name}`
      const cell = name === 'unknown' ? { text, is: /** @type {const} */ ('warn') } : text
      return [cell, number(rate(perSecond)), number(whole(total))]
    }),
    'No requests with keys yet.',
  )
  showFacts(
    'kept-keys',
    keys === undefined
      ? [['Keys', 'in the shared store']]
      : [
          ['Keys', `${whole(keys)} of ${whole(maxKeys)}`],
          ['Responses', `${megabytes(bytes)} of ${megabytes(maxBytes)}`],
        ],
  )
}

/** @param {ConsoleState} state */
function showTraffic({ statuses, refusals, routes, upstreams }) {
  const counts = (/** @type {readonly Count[]} */ rows) =>
    rows.map(({ name, perSecond, total }) => [name, number(rate(perSecond)), number(whole(total))])
  showTable('statuses', ['Status', 'Rate', 'Since start'], counts(statuses), 'No responses yet.')
  showTable('refusals', ['Code', 'Rate', 'Since start'], counts(refusals), 'Nothing has been refused.')
  showTable(
    'routes',
    ['Route', 'Requests', '5xx', 'p95'],
    routes.rows.map(({ route, perSecond, errorsPerSecond, p95Ms }) => [
      route === 'none' ? 'none (no route matches)' : route,
      number(rate(perSecond)),
      { text: rate(errorsPerSecond), is: errorsPerSecond > 0 ? 'number bad' : 'number' },
      latency(p95Ms),
    ]),
    'No requests yet.',
    routes.more,
  )
  showTable(
    'upstreams',
    ['Upstream', 'State', 'Requests', 'Errors', 'p95'],
    upstreams.flatMap(({ group, upstream, perSecond, errorShare, p95Ms, ...state }, i) => {
      /** @type {Value} */
      const errors = {
        text: `${(errorShare * 100).toFixed(1)} %`,
        is: errorShare > 0 ? 'number bad' : 'number',
      }
      const row = [upstream, upstreamState(state), number(rate(perSecond)), errors, latency(p95Ms)]
      return group === upstreams[i - 1]?.group ? [row] : [[`Group ${group}`], row]
    }),
    'No upstream.',
  )
}

/**
 * @param {Pick<ConsoleState['upstreams'][number], 'healthy' | 'breaker'>} upstream
 * @returns {{ text: string, is: 'good' | 'bad' | 'warn' }}
 */
function upstreamState({ healthy, breaker }) {
  if (!healthy) return { text: 'down', is: 'bad' }
  if (breaker === 'open') return { text: 'breaker open', is: 'bad' }
  return breaker === 'half open' ? { text: 'breaker half open', is: 'warn' } : { text: 'healthy', is: 'good' }
}

/** @param {ConsoleState} state */
function showTrail({ audit }) {
  showFacts('audit', [
    ['State', audit.writable ? { text: 'written', is: 'good' } : { text: 'cannot be written', is: 'bad' }],
    ['File', audit.file === '-' ? 'standard output' : audit.file],
    ['Durability', audit.durability],
    ['Records', rate(audit.recordsPerSecond)],
    ['Lag', lagOf(audit)],
    ['Write errors', audit.writeErrors === 0 ? '0' : { text: whole(audit.writeErrors), is: 'warn' }],
    ...sealFacts(audit),
  ])
}

/** @param {ConsoleState['audit']} audit @returns {Fact[]} */
export function sealFacts({ seals, witnesses, stamps, unshipped }) {
  /** @type {Fact[]} */
  const facts = []
  if (seals === undefined) facts.push(['Seals', 'off'])
  else {
    facts.push(
      ['Sealed records', whole(seals.records)],
      ['Last seal', seals.lastAtSeconds === 0 ? 'none yet' : time(seals.lastAtSeconds * 1000)],
      ['Seal lag', waitOf(seals.lagSeconds, MUCH_SEAL_LAG_SECONDS)],
    )
    if (seals.gaps > 0) facts.push(['Gaps', { text: whole(seals.gaps), is: 'bad' }])
  }
  if (witnesses !== undefined) facts.push(['Witnesses behind', attestationWaitOf(witnesses)])
  if (stamps !== undefined) facts.push(['Time stamp behind', attestationWaitOf(stamps)])
  if (unshipped > 0) facts.push(['Segments to copy', whole(unshipped)])
  return facts
}

/** @param {AttestationState} attestation */
function attestationWaitOf({ lagSeconds, everySeconds }) {
  return waitOf(lagSeconds, everySeconds + MUCH_ATTESTATION_DELAY_SECONDS)
}

/** @param {number} seconds @param {number} muchSeconds @returns {string | { text: string, is: 'warn' }} */
function waitOf(seconds, muchSeconds) {
  if (seconds < 1) return 'none'
  return seconds < muchSeconds ? duration(seconds) : { text: duration(seconds), is: 'warn' }
}

/**
 * A few records always wait; under `synced`, all that arrive during one write.
 * @param {ConsoleState['audit']} audit
 * @returns {string | { text: string, is: 'bad' | 'warn' }}
 */
function lagOf({ pending, writable }) {
  if (pending === 0) return 'none'
  const text = pending === 1 ? '1 record waits' : `${whole(pending)} records wait`
  if (!writable) return { text, is: 'bad' }
  return pending < MUCH_LAG ? text : { text, is: 'warn' }
}

/** @param {ConsoleState} state */
function showStores({ stores, sharedStore }) {
  /** @type {Fact[]} */
  const facts = stores
    .filter(({ store }) => store !== 'shared')
    .map(({ store, writable }) => [
      store,
      writable ? { text: 'written', is: 'good' } : { text: 'cannot be written', is: 'bad' },
    ])
  if (sharedStore === undefined) facts.push(['Shared store', 'none: counts are this gateway’s own'])
  else {
    facts.push(
      ['Shared store', sharedStore.away ? { text: 'away', is: 'bad' } : { text: 'reached', is: 'good' }],
      ['Round trips', `${rate(sharedStore.roundTripsPerSecond)}, p95 ${milliseconds(sharedStore.p95Ms)}`],
      ['Outages', whole(sharedStore.outages)],
      [
        'Unsent log-outs',
        sharedStore.unsentSessions === 0 ? '0' : { text: whole(sharedStore.unsentSessions), is: 'warn' },
      ],
    )
  }
  showFacts('stores', facts)
}

/** @param {ConsoleState} state */
function showProcess({ process, node, uptimeSeconds }) {
  showFacts('process', [
    ['Event loop lag', `p99 ${milliseconds(process.loopLagP99Ms)}`],
    ['CPU', `${(process.cpuCores * 100).toFixed(0)} % of a core`],
    ['Memory', megabytes(process.memoryBytes)],
    ['Running for', duration(uptimeSeconds)],
    ['Node', node],
  ])
}

/** @param {ConsoleState} state */
function showKeys({ certificate, clientTrust, issuers }) {
  /** @type {Fact[]} */
  const facts = []
  if (certificate === undefined) facts.push(['Certificate', 'no HTTPS listener'])
  else {
    facts.push(
      ['Certificate', certificate.subject],
      ['Expires', expiry(certificate.notAfterSeconds)],
      ['SHA-256', certificate.thumbprint],
      ['Client authorities', certificate.clientAuthorities.join(', ') || 'none'],
    )
  }
  for (const { what, untilSeconds } of clientTrust) facts.push([`Client ${what}`, expiry(untilSeconds)])
  for (const { issuer, keysAgeSeconds } of issuers) {
    if (keysAgeSeconds === null) facts.push([issuer, { text: 'keys never fetched', is: 'bad' }])
    else {
      const text = `keys fetched ${duration(keysAgeSeconds)} ago`
      facts.push([issuer, keysAgeSeconds < OLD_KEYS_SECONDS ? text : { text, is: 'warn' }])
    }
  }
  showFacts('keys', facts)
}

/** @param {number} epochSeconds @returns {Value} */
function expiry(epochSeconds) {
  const seconds = epochSeconds - Date.now() / 1000
  const ms = epochSeconds * 1000
  if (seconds <= 0) return { ...time(ms, (until) => `expired ${until}`), is: 'bad' }
  const value = time(ms, (until) => `in ${duration(seconds)}, ${until}`)
  return seconds < SOON_DAYS * DAY_SECONDS ? { ...value, is: 'warn' } : value
}

/** @param {ConsoleState} state */
function showConfig({ config }) {
  setText(byId('config-hash'), config.hash)
  showTable(
    'config',
    ['Part', 'File', 'SHA-256', 'In force since', 'Last reload'],
    config.parts.map((part) => [
      part.part,
      part.file,
      part.hash.slice(0, 16),
      time(part.sinceMs),
      lastReload(part),
    ]),
    'Nothing is known of the configuration.',
  )
}

/** @param {PartState} part @returns {Value} */
function lastReload({ lastReload: last }) {
  if (last === undefined) return 'none since the start'
  if (last.result === 'success') {
    const later = last.needsRestart.length === 0 ? '' : `; after a restart: ${last.needsRestart.join(', ')}`
    return time(last.atMs, (at) => `good, ${at}${later}`)
  }
  return { ...time(last.atMs, (at) => `refused, ${at}: ${last.faults.join('; ')}`), is: 'bad' }
}
