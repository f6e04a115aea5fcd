import { setImmediate as turn } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { REVOCATION_LIFETIME_MS } from '../auth/revocations.ts'
import { RememberedKeys } from '../storage/expiring-keys.ts'
import type { Send } from './connection/store-link.ts'
import type { StoreBreaker } from './store-breaker.ts'
import { MAX_STREAM, streamKey } from './store-events.ts'
import type { StoreKeys } from './store-keys.ts'

const MAX_HASHES = 20_000
const PAGE = 1000
/** A full batch holds up the store for about 2 ms. */
const MAX_BATCH = 250
/** Replaced hash keys that are kept, because sessions that ended elsewhere may be hashed with them. */
const MAX_RETIRED = 3

/**
 * Adds sessions by the clock of the server, tells gateways of new and renewed ends, drops old sessions. KEYS: set,
 * stream. ARGV: origin; lifetime in milliseconds; for each session milliseconds since its end, and its hash.
 */
const END_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 3, #ARGV, 2 do
  local hash = ARGV[i + 1]
  if redis.call('ZADD', KEYS[1], 'GT', 'CH', now - ARGV[i], hash) == 1 then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ${MAX_STREAM}, '*', 'kind', 'ended', 'hash', hash, 'origin', ARGV[1], 'agoMs', ARGV[i])
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
return 1
`

interface EndedSessionsOptions {
  readonly breaker: Pick<StoreBreaker, 'send'>
  readonly keys: StoreKeys
  readonly id: string
  readonly clock: () => number
  readonly own: () => Iterable<readonly [sid: string, atMs: number]>
}

/** Sessions that ended at any gateway. The store has a set of their hashes, and a stream of new ends. */
export class EndedSessions {
  readonly #options: EndedSessionsOptions
  readonly #ended: RememberedKeys
  /** Sessions that ended here. */
  readonly #unsent = new Map<string, number>()
  /** Sessions that ended elsewhere, and that the store has lost. */
  readonly #unsentHashes = new Set<string>()
  #lifetimeMs = REVOCATION_LIFETIME_MS
  #isSending = false
  readonly #hashes = new LRUCache<string, readonly string[]>({ max: MAX_HASHES })
  #hashKeys: readonly string[]

  constructor(options: EndedSessionsOptions) {
    this.#options = options
    this.#ended = new RememberedKeys({
      lifetimeMs: this.#lifetimeMs,
      clock: options.clock,
      store: undefined,
    })
    this.#hashKeys = [options.keys.hashKey]
  }

  rememberFor(lifetimeMs: number): void {
    this.#lifetimeMs = lifetimeMs
    this.#ended.lifetimeMs = lifetimeMs
  }

  get unsent(): number {
    return this.#unsent.size + this.#unsentHashes.size
  }

  has(sid: string): boolean {
    if (this.#ended.size === 0) return false
    for (const hash of this.#hashesOf(sid)) if (this.#ended.since(hash) !== undefined) return true
    return false
  }

  apply(hash: string, agoMs: number): void {
    this.#learn(hash, this.#options.clock() - agoMs)
  }

  /** Tells the other gateways, now or later. */
  publish(sid: string): void {
    this.#unsent.set(sid, this.#options.clock())
    this.#send()
  }

  maintain(): void {
    this.#followKey()
    this.#send()
  }

  /** Reads the set, and sends what it lacks after a loss of data. @throws (rejects) when the set cannot be read */
  async readAll(send: Send): Promise<void> {
    const present = await this.#readSet(send)
    let done = 0
    for (const [sid, endedAtMs] of this.#options.own()) {
      if (!present.has(this.#options.keys.hashOf(`session\0${sid}`))) this.#unsent.set(sid, endedAtMs)
      if (++done % PAGE === 0) await turn()
    }
    for (const [hash] of this.#ended.entries()) if (!present.has(hash)) this.#unsentHashes.add(hash)
    this.#send()
  }

  /** Keeps the age of each session. If a reading reset the age, no session would ever be forgotten. */
  async #readSet(send: Send): Promise<ReadonlySet<string>> {
    const { clock } = this.#options
    const key = this.#setKey
    const [seconds, us] = (await send(['TIME'], key)) as readonly [string, string]
    const aheadMs = Number(seconds) * 1000 + Math.floor(Number(us) / 1000) - clock()
    const present = new Map<string, number>()
    let cursor = '0'
    do {
      const reply = await send(['ZSCAN', key, cursor, 'COUNT', String(PAGE)], key)
      const [next, members] = reply as readonly [string, readonly string[]]
      for (let i = 0; i < members.length; i += 2) present.set(members[i] as string, Number(members[i + 1]))
      cursor = String(next)
    } while (cursor !== '0')
    const oldestFirst = [...present].sort(([, a], [, b]) => a - b)
    for (const [hash, atMs] of oldestFirst) this.#learn(hash, Math.min(atMs - aheadMs, clock()))
    return new Set(present.keys())
  }

  #learn(hash: string, endedAtMs: number): void {
    const knownMs = this.#ended.since(hash)
    if (knownMs === undefined || knownMs < endedAtMs) this.#ended.apply(hash, endedAtMs, true)
  }

  get #setKey(): string {
    return `${streamKey(this.#options.keys)}:ended`
  }

  #send(): void {
    if (this.#isSending || this.unsent === 0) return
    const { breaker, keys, id, clock } = this.#options
    const sids = [...this.#unsent.entries().take(MAX_BATCH)]
    const hashes = [...this.#unsentHashes.values().take(MAX_BATCH - sids.length)]
    const nowMs = clock()
    const aged = (hash: string, endedAtMs = nowMs) => [`${Math.max(0, Math.round(nowMs - endedAtMs))}`, hash]
    const own = sids.flatMap(([sid, endedAtMs]) => aged(keys.hashOf(`session\0${sid}`), endedAtMs))
    const others = hashes.flatMap((hash) => aged(hash, this.#ended.since(hash)))
    const key = this.#setKey
    const { hashKey } = keys
    this.#isSending = true
    breaker.send({
      args: ['EVAL', END_SCRIPT, '2', key, streamKey(keys), id, `${this.#lifetimeMs}`, ...own, ...others],
      key,
      done: (reply) => {
        this.#isSending = false
        if (reply === undefined || hashKey !== keys.hashKey) return
        // A session may have ended again meanwhile.
        for (const [sid, endedAtMs] of sids) if (this.#unsent.get(sid) === endedAtMs) this.#unsent.delete(sid)
        for (const hash of hashes) this.#unsentHashes.delete(hash)
        this.#send()
      },
    })
  }

  /** When the hash key has changed, sends own sessions again. Others stay known under the old key. */
  #followKey(): void {
    const { keys, own } = this.#options
    const { hashKey } = keys
    if (hashKey === this.#hashKeys[0]) return
    const isFirst = this.#ended.size === 0
    this.#hashKeys = isFirst ? [hashKey] : [hashKey, ...this.#hashKeys].slice(0, MAX_RETIRED + 1)
    this.#hashes.clear()
    this.#unsentHashes.clear()
    for (const [sid, endedAtMs] of own()) this.#unsent.set(sid, endedAtMs)
  }

  #hashesOf(sid: string): readonly string[] {
    this.#followKey()
    const known = this.#hashes.get(sid)
    if (known !== undefined) return known
    const hashes = this.#hashKeys.map((hashKey) => this.#options.keys.hashOf(`session\0${sid}`, hashKey))
    this.#hashes.set(sid, hashes)
    return hashes
  }
}
