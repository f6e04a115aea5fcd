import { createPublicKey, type KeyObject, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import jsonwebtoken from 'jsonwebtoken'
import { LRUCache } from 'lru-cache'
import { destination, pino } from 'pino'
import { Counter, Histogram, Registry } from 'prom-client'

/** The first argument of a peer's program, as JSON. */
export interface PeerSettings {
  readonly peer: string
  readonly upstreamPort: number
  readonly publicKeyFiles: Readonly<Record<'RS256' | 'ES256', string>>
  readonly issuer: string
  readonly audience: string
  readonly logFile: string
}

export interface Admission {
  readonly requestId: string
  readonly subject: string
  readonly method: string
  readonly path: string
  readonly startedMs: number
}

interface Arrival {
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  readonly agent: string | undefined
  readonly ip: string | undefined
}

interface Caller {
  readonly sub: string
  readonly exp: number
  readonly scope: string
}

/** The mandatory headers except X-Request-ID. */
export const FIXED_HEADERS: readonly (readonly [string, string])[] = [
  ['Strict-Transport-Security', 'max-age=31536000; includeSubDomains'],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['X-XSS-Protection', '1; mode=block'],
  ['Cache-Control', 'no-store'],
]

const WINDOW_MS = 60_000
const LIMIT = 1_000_000_000
const UNLIMITED: ReadonlySet<string> = new Set(['/api/accounts', '/api/data'])

export function settingsOf(argument: string | undefined): PeerSettings {
  return JSON.parse(argument ?? '') as PeerSettings
}

/** Packages under test are not always installed, so their types are missing. */
export function load<T>(name: string): T {
  return createRequire(import.meta.url)(name) as T
}

/**
 * Adds features that peers lack, as an expert would by hand: verified tokens are cached, keys are KeyObjects, the log
 * is written in blocks.
 */
export class Policy {
  readonly #settings: PeerSettings
  readonly #keys: Readonly<Record<string, KeyObject>>
  readonly #callers = new LRUCache<string, Caller>({ max: 10_000 })
  readonly #windows = new Map<string, { startMs: number; count: number }>()
  readonly #log
  readonly #requests
  readonly #seconds

  constructor(settings: PeerSettings) {
    this.#settings = settings
    const key = (file: string) => createPublicKey(readFileSync(file))
    const { RS256, ES256 } = settings.publicKeyFiles
    this.#keys = { RS256: key(RS256), ES256: key(ES256) }
    this.#log = pino(
      { base: null },
      destination({ dest: settings.logFile, sync: false, minLength: 4096, append: true }),
    )
    const registers = [new Registry()]
    const labelNames = ['route', 'method', 'status']
    this.#requests = new Counter({ name: 'requests_total', help: 'Requests', labelNames, registers })
    this.#seconds = new Histogram({ name: 'request_seconds', help: 'Time', labelNames, registers })
  }

  /** Returns a refusal's status when the request is not let through. */
  admit(arrival: Arrival): Admission | 401 | 403 | 429 {
    const { method, path, authorization = '' } = arrival
    const caller = authorization.startsWith('Bearer ') ? this.#callerOf(authorization.slice(7)) : undefined
    if (caller === undefined) return 401
    const requestId = randomUUID()
    const { sub } = caller
    const { agent, ip } = arrival
    this.#log.info({ type: 'API_REQUEST', requestId, method, path, userId: sub, ip, userAgent: agent })
    if (!caller.scope.split(' ').includes(method === 'POST' ? 't:w' : 'a:r')) return 403
    if (!UNLIMITED.has(path) && !this.#count(sub)) return 429
    return { requestId, subject: sub, method, path, startedMs: performance.now() }
  }

  close(admission: Admission, status: number): void {
    const { requestId, method, path, startedMs } = admission
    const ms = performance.now() - startedMs
    this.#log.info({ type: 'API_RESPONSE', requestId, status, durationMs: ms })
    const labels = { route: path, method, status: String(status) }
    this.#requests.inc(labels)
    this.#seconds.observe(labels, ms / 1000)
  }

  #callerOf(token: string): Caller | undefined {
    const known = this.#callers.get(token)
    if (known !== undefined) return known.exp * 1000 > Date.now() ? known : undefined
    try {
      const algorithm = (jsonwebtoken.decode(token, { complete: true })?.header.alg ?? '') as
        | 'RS256'
        | 'ES256'
      const { issuer, audience } = this.#settings
      const caller = jsonwebtoken.verify(token, this.#keys[algorithm] as KeyObject, {
        algorithms: [algorithm],
        issuer,
        audience,
      }) as unknown as Caller
      this.#callers.set(token, caller)
      return caller
    } catch {
      return undefined
    }
  }

  #count(sub: string): boolean {
    const nowMs = Date.now()
    let window = this.#windows.get(sub)
    if (window === undefined || nowMs - window.startMs >= WINDOW_MS) {
      window = { startMs: nowMs, count: 0 }
      this.#windows.set(sub, window)
    }
    window.count += 1
    return window.count <= LIMIT
  }
}
