import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { KeySet } from '../auth/keys/jwks.ts'
import { ReplayMemory } from '../auth/replay.ts'
import { Revocations } from '../auth/revocations.ts'
import { AuthThrottle } from '../auth/throttle.ts'
import { FairTurns } from '../auth/tokens/fair-turns.ts'
import type { Verification } from '../auth/tokens/verification.ts'
import { TokenVerifier } from '../auth/tokens/verifier.ts'
import { RFC9068 } from '../config/issuers/token-dialects.ts'
import { limitKey } from '../limits/limit-key.ts'
import { Limiter } from '../limits/limiter.ts'
import type { LimitRow } from '../limits/table/limit-table.ts'
import { keysOf, type Principal } from '../principal.ts'
import { AUDIENCE, ISSUER, tokenOf } from './bench-tokens.ts'

/** A part of the gateway that remembers what it has seen, with default bounds. */
export interface Memory {
  readonly what: string
  /** Entries that `npm run bench:memory` offers. */
  readonly offered: number
  /** The most entries; infinite when only time bounds them. */
  readonly mostHeld: number
  /** The most heap bytes per entry, somewhat above the measured ones. */
  readonly budgetBytes: number
  /** The bound in the code, and what happens beyond it. */
  readonly bound: string
  begin(): Promise<Begun>
}

export interface Begun {
  /** The nth entry: a different caller, token or id each time. */
  textOf(index: number): string
  take(text: string): void
  /** Call it once. */
  held(): number
}

const START_MS = 1_763_692_800_000.5
const WINDOW_MS = 60_000
const LIMITER_BOUND =
  'MAX_KEYS in limits/windows/counters.ts, over all rows; a new caller is refused, none is forgotten'

export const MEMORIES = {
  callers: callers({
    what: 'callers, 1 hit each',
    offered: 1_100_000,
    limit: 100,
    hits: 1,
    budgetBytes: 280,
  }),
  callersOf100: callers({
    what: 'callers, 100 hits each',
    offered: 50_000,
    limit: 100,
    hits: 100,
    budgetBytes: 1_200,
  }),
  callersOf1000: callers({
    what: 'callers, 1,000 hits each: the most',
    offered: 10_000,
    limit: 1_000,
    hits: 1_000,
    budgetBytes: 9_000,
  }),
  callersInSlices: callers({
    what: 'callers of a limit above 1,000, every slice in use',
    offered: 10_000,
    limit: 1_000_000,
    hits: 500,
    budgetBytes: 3_000,
  }),
  tokens: {
    what: 'verified tokens',
    offered: 100_000,
    mostHeld: 10_000,
    budgetBytes: 1_100,
    bound:
      'CACHE_SIZE and MAX_CACHED_CHARS in auth/tokens/verifier.ts; beyond them, the token used longest ago must be verified again',
    begin: beginTokens,
  },
  replays: {
    what: 'webhooks, and as many DPoP proofs, seen before',
    offered: 550_000,
    mostHeld: 500_000,
    budgetBytes: 160,
    bound:
      'DEFAULT_MAX_ENTRIES in auth/replay.ts; a full memory refuses new ones, and a nearly full memory refuses those of senders over their share',
    begin: beginReplays,
  },
  blocked: {
    what: 'addresses kept from guessing',
    offered: 100_000,
    mostHeld: 65_536,
    budgetBytes: 160,
    bound:
      'MAX_BLOCKED in auth/throttle.ts; an address dropped to make room is blocked again after one more failure',
    begin: beginBlocked,
  },
  revocations: {
    what: 'revoked sessions',
    offered: 100_000,
    mostHeld: Number.POSITIVE_INFINITY,
    budgetBytes: 160,
    bound: '24 h 1 min, in auth/revocations.ts; no bound in number',
    begin: beginRevocations,
  },
} satisfies Readonly<Record<string, Memory>>

interface Callers {
  readonly what: string
  readonly offered: number
  readonly limit: number
  readonly hits: number
  readonly budgetBytes: number
}

function callers({ what, offered, limit, hits, budgetBytes }: Callers): Memory {
  const begin = () => beginCallers(limit, hits)
  return { what, offered, mostHeld: 1_000_000, budgetBytes, bound: LIMITER_BOUND, begin }
}

async function beginCallers(limit: number, hits: number): Promise<Begun> {
  let nowMs = START_MS
  const limiter = new Limiter({ clock: () => nowMs })
  const row = rowOf(limit)
  limiter.replace([row])
  return {
    textOf: (index) => `user:${uuid(index)}`,
    take: (name) => {
      const key = limitKey('caller', principalOf(name), '-')
      for (let i = 0; i < hits; i++) {
        // Spread over the window, to use every slice.
        nowMs = START_MS + (i / hits) * WINDOW_MS
        limiter.take(row, key)
      }
    },
    held: () => limiter.inForce().rows[0]?.[1].size ?? 0,
  }
}

const CALLER = { address: '192.0.2.1', closed: false }

async function beginTokens(): Promise<Begun> {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'ES256', alg: 'ES256', use: 'sig' }
  const keys = new KeySet({ uri: '', clock: Date.now, fetch: async () => ({ keys: [jwk] }), onFault: fail })
  await keys.refresh()
  const issuer = {
    issuer: ISSUER,
    audiences: [AUDIENCE],
    tokens: RFC9068,
    clockToleranceMs: 10_000,
    own: true,
    boundOnly: false,
    scopes: undefined,
    keys,
  }
  const verifier = new TokenVerifier({
    issuers: [{ ...issuer, algorithms: new Set(['ES256'] as const) }],
    revocations: emptyRevocations(),
    clock: Date.now,
    turns: new FairTurns(() => 0),
  })
  let verdicts: WeakRef<Verification>[] = []
  return {
    textOf: (index) => tokenOf('ES256', privateKey, index),
    take: (token) => {
      const verdict = verifier.verify(token, CALLER)
      if (verdict instanceof Promise || verdict.principal === undefined)
        throw new Error('a token was refused')
      verdicts.push(new WeakRef(verdict))
    },
    held: () => {
      const held = verdicts.filter((verdict) => verdict.deref() !== undefined).length
      verdicts = []
      // Keeps the verifier from being collected.
      verifier.verify('', CALLER)
      return held
    },
  }
}

async function beginReplays(): Promise<Begun> {
  const memory = new ReplayMemory({ lifetimeMs: 601_000, clock: Date.now })
  return { textOf: uuid, take: (id) => memory.take(id, id), held: () => memory.size }
}

async function beginBlocked(): Promise<Begun> {
  // The real counter is a table of callers, which is measured on its own.
  const counter = { take: () => ({ allowed: false, remaining: 0, resetSeconds: 60 }) }
  const throttle = new AuthThrottle({ counter, clock: () => START_MS })
  // The first entry allocates the room for all.
  throttle.failed('first')
  return {
    textOf: (index) => `2001:db8:${(index >>> 16).toString(16)}:${(index & 0xffff).toString(16)}::1`,
    take: (address) => throttle.failed(limitKey('address', undefined, address)),
    held: () => throttle.blocked().filter(([name]) => name !== 'first').length,
  }
}

async function beginRevocations(): Promise<Begun> {
  const revocations = emptyRevocations()
  return {
    textOf: uuid,
    // Revoked as by another process, so that nothing is written to disk.
    take: (sid) => revocations.apply(sid, Date.now(), true),
    held: () => revocations.size,
  }
}

function emptyRevocations(): Revocations {
  const dataDir = mkdtempSync(join(tmpdir(), 'countersign-memory-'))
  process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }))
  return new Revocations({ dataDir, clock: Date.now, onFault: fail })
}

function rowOf(limit: number): LimitRow {
  const window = { window: '1m', windowMs: WINDOW_MS, limit }
  const path = { name: 'all', path: '/*', methods: undefined, purpose: '' }
  return { ...path, ...window, cost: 1, per: 'caller', mode: 'enforce', onStoreFailure: 'local' }
}

function principalOf(key: string): Principal {
  const names = {
    subject: undefined,
    client: undefined,
    session: undefined,
    sessionName: undefined,
    expiresAtMs: undefined,
  }
  return { method: 'bearer', ...names, scopes: new Set(), scope: '', ...keysOf(key) }
}

function uuid(index: number): string {
  return `${index.toString(16).padStart(8, '0')}-0000-4000-8000-000000000000`
}

function fail(cause: string): never {
  throw new Error(cause)
}
