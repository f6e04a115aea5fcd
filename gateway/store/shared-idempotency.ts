import type { StoreSettings } from '../config/rules/store-address.ts'
import type { FoundKey } from '../idempotency/find-key.ts'
import { type KeptResponse, readResponse, responseText, statusOf } from '../idempotency/key-record.ts'
import { type KeySecret, type KeySecrets, type RecordSeal, secretNamed } from '../idempotency/key-secret.ts'
import type {
  Begun,
  Finish,
  HeldKey,
  KeyedRequest,
  KeyKeeper,
  KeyTable,
  OnFinished,
} from '../idempotency/key-table.ts'
import { dialStore, type Send, type StoreReply, withLink } from './connection/store-link.ts'
import { BEGIN_SCRIPT, FINISH_SCRIPT, type Script } from './idempotency-scripts.ts'
import { LEASE_MS, RENEW_MS, TAKEN_BACK_TIMES } from './shared-replays.ts'
import { agreedKeys } from './shared-store.ts'
import type { StoreBreaker, StoreTimers } from './store-breaker.ts'
import type { StoreKeys } from './store-keys.ts'

interface SharedIdempotencyOptions {
  readonly breaker: Pick<StoreBreaker, 'send' | 'isOpen'>
  readonly keys: StoreKeys
  readonly timers: Pick<StoreTimers, 'nowMs' | 'after'>
  readonly secrets: KeySecrets
  /** Unique among gateways. */
  readonly id: string
  /** False if other gateways find nothing that this one writes. */
  readonly isShared: () => boolean
  /** Table for rows that go on without the store. */
  readonly local: () => KeyTable | undefined
  readonly onFault: (cause: string) => void
}

/** A key that this gateway has begun, until the store knows its outcome. */
interface SharedKey {
  readonly key: string
  readonly id: string
  readonly token: string
  readonly keepMs: number
  /** Secret of the gateway that began the key first. */
  readonly secret: KeySecret
  readonly fingerprint: string
  readonly requestId: string
  /** What the store is told next. `begun` renews the lease, the other kinds are outcomes. */
  kind: 'begun' | 'free' | 'unknown' | 'done'
  /** Sealed id of the request, and with `done` its response. */
  rest: string
  /** Time of the last renewal, or of the outcome. */
  sinceMs: number
  run: OnFinished | undefined
  /** Replies that are still needed. */
  replies: number
}

const TICK_MS = 1000
/** More commands than a connection accepts would count as a failure of the store. */
const MAX_BATCH = 1000
/** Longest wait of a caller for the store to take an outcome. */
const MAX_LATE_MS = 5000
/** With more open keys, a begin without a reply is not taken back. Its key may stay begun until its lease ends. */
const MAX_UNSURE = 10_000
const NO_RESPONSE = statusOf({ status: 0 })
/** See `idempotency-scripts.ts`. */
const VALUE = /^(begun|again|unknown|done) (\d+) \S+ (\S+) (\S+) (.*)$/
const LOST = new Error('the store did not take the outcome of an idempotency key')

/** The store knows `begun` and `done` before `begin` and `finish` call back. */
export class SharedIdempotency implements KeyKeeper<SharedKey | HeldKey> {
  readonly #options: SharedIdempotencyOptions
  #secrets: KeySecrets
  readonly #seals = new WeakMap<KeySecret, RecordSeal>()
  readonly #open = new Set<SharedKey>()
  #cancelTick: (() => void) | undefined
  #count = 0

  constructor(options: SharedIdempotencyOptions) {
    this.#options = options
    this.#secrets = options.secrets
  }

  /** See KeyTable.rekey. A request with a key under a removed secret gets 503. */
  rekey(secrets: KeySecrets): void {
    this.#secrets = secrets
  }

  begin(request: KeyedRequest, run: (begun: Begun<SharedKey | HeldKey>) => void): void {
    const { breaker, isShared } = this.#options
    if (breaker.isOpen || !isShared()) this.#beginAlone(request, run)
    else this.#beginWith(this.#secrets[0], request, run)
  }

  #beginWith(
    secret: KeySecret,
    request: KeyedRequest,
    run: (begun: Begun<SharedKey | HeldKey>) => void,
  ): void {
    const { keys, id: gatewayId, timers, onFault } = this.#options
    const { keepMs, requestId, resolves, maxKeys } = request
    const held: SharedKey = {
      ...placeOf(request, keys),
      ...{ token: `${gatewayId}.${++this.#count}`, keepMs, secret, requestId },
      fingerprint: secret.nameOf(...request.content),
      ...{ kind: 'begun', rest: '', sinceMs: timers.nowMs(), run: undefined, replies: 1 },
    }
    this.#seal(held, NO_RESPONSE)
    const terms = [secret.name, held.fingerprint, LEASE_MS, keepMs, maxKeys, resolves ? 1 : 0, held.rest]
    this.#send(BEGIN_SCRIPT, held, terms, {
      fits: (reply) => Array.isArray(reply) && reply.every((one) => typeof one === 'string'),
      done: (reply) => {
        const [outcome, rest = ''] = (reply ?? []) as readonly string[]
        const older = outcome === 'foreign' ? secretNamed(this.#secrets, rest) : undefined
        if (reply === undefined) {
          this.#takeBack(held)
          this.#beginAlone(request, run)
        } else if (older !== undefined && older !== secret) this.#beginWith(older, request, run)
        else if (outcome === 'foreign') {
          onFault('another gateway has another "idempotencyKeyFile"')
          run({ outcome: 'unavailable' })
        } else run(this.#begun(held, outcome, rest))
      },
    })
  }

  #beginAlone(request: KeyedRequest, run: (begun: Begun) => void): void {
    const table = request.onStoreFailure === 'local' ? this.#options.local() : undefined
    if (table === undefined) run({ outcome: 'unavailable' })
    else table.begin(request, run)
  }

  #begun(held: SharedKey, outcome: string | undefined, rest: string): Begun<SharedKey> {
    switch (outcome) {
      case 'begun':
        this.#keep(held)
        return { outcome, held }
      case 'done': {
        const { requestId, response } = unsealed(held, rest) ?? {}
        if (response?.status && requestId !== undefined) return { outcome, requestId, response }
        this.#options.onFault('a response in the store is damaged')
        return { outcome: 'unknown' }
      }
      case 'unknown':
        return { outcome, requestId: unsealed(held, rest)?.requestId }
      case 'in_progress':
      case 'reused':
      case 'too_many':
        return { outcome }
      default:
        // The script gives no other outcome. A request whose key was not begun must not go on.
        return { outcome: 'unavailable' }
    }
  }

  /** See KeyTable.finish. Also fails when another request was told that the outcome is unknown. */
  finish(held: SharedKey | HeldKey, finish: Finish, run: OnFinished): void {
    if ('entry' in held) {
      this.#options.local()?.finish(held, finish, run)
      return
    }
    held.sinceMs = this.#options.timers.nowMs()
    if (typeof finish === 'string') {
      held.kind = finish
      run()
    } else {
      held.kind = 'done'
      this.#seal(held, finish)
      held.run = run
    }
    this.#tell(held)
  }

  #seal(held: SharedKey, response: KeptResponse): void {
    const { secret, requestId } = held
    const seal = this.#seals.getOrInsertComputed(secret, () => secret.sealOf())
    held.rest = `${seal.salt} ${seal.seal(responseText(boundTo(held), requestId, response))}`
  }

  /** Frees a key whose begin got no reply. */
  #takeBack(held: SharedKey): void {
    if (this.#open.size >= MAX_UNSURE) return
    held.kind = 'free'
    held.replies = TAKEN_BACK_TIMES
    this.#keep(held)
  }

  #tell(held: SharedKey): void {
    const { kind, secret, fingerprint, rest, keepMs } = held
    const terms = [kind, kind === 'begun' ? LEASE_MS : 0, keepMs, `${secret.name} ${fingerprint} ${rest}`]
    this.#send(FINISH_SCRIPT, held, terms, {
      fits: (reply) => typeof reply === 'number',
      done: (reply) => {
        if (reply === undefined || kind === 'begun' || --held.replies > 0) return
        this.#open.delete(held)
        held.run?.(reply === 1 ? undefined : LOST)
        held.run = undefined
      },
    })
  }

  #send(
    { text, sha }: Script,
    { key, id, token }: SharedKey,
    terms: readonly (string | number)[],
    call: { fits(reply: StoreReply): boolean; done(reply: StoreReply | undefined): void },
  ): void {
    const all = `${key.slice(0, -id.length)}keys`
    const args = ['EVALSHA', sha, '2', key, all, id, token, ...terms.map(String)]
    this.#options.breaker.send({ args, key, ...call, script: text })
  }

  #keep(held: SharedKey): void {
    this.#open.add(held)
    this.#cancelTick ??= this.#options.timers.after(TICK_MS, this.#tick)
  }

  /** Renews leases, and repeats outcomes that the store has not taken. After a restart, the old process does so too. */
  readonly #tick = (): void => {
    this.#cancelTick = undefined
    const { breaker, timers } = this.#options
    const nowMs = timers.nowMs()
    let left = breaker.isOpen ? 0 : MAX_BATCH
    for (const held of [...this.#open]) {
      if (held.kind === 'done' && nowMs - held.sinceMs >= MAX_LATE_MS) {
        held.run?.(LOST)
        held.run = undefined
      }
      if (left <= 0 || (held.kind === 'begun' && nowMs - held.sinceMs < RENEW_MS)) continue
      left--
      if (held.kind === 'begun') held.sinceMs = nowMs
      // Moves this key to the end of the queue.
      this.#open.delete(held)
      this.#open.add(held)
      this.#tell(held)
    }
    if (this.#open.size > 0) this.#cancelTick ??= timers.after(TICK_MS, this.#tick)
  }

  close(): void {
    this.#cancelTick?.()
    this.#options.local()?.close()
  }
}

type KeyOfCaller = Pick<KeyedRequest, 'caller' | 'row' | 'key'>

function placeOf({ caller, row, key }: KeyOfCaller, keys: StoreKeys): Pick<SharedKey, 'key' | 'id'> {
  const id = keys.hashOf(`idempotency key\0${JSON.stringify([caller, row, key])}`)
  return { key: `${keys.keyOf('idempotency', caller)}:${id}`, id }
}

type Bound = Pick<SharedKey, 'id' | 'fingerprint'>

/** Binds a response to its key and content. */
function boundTo({ id, fingerprint }: Bound): string {
  return `${id} ${fingerprint} `
}

function unsealed(bound: Bound & Pick<SharedKey, 'secret'>, rest: string): ReturnType<typeof readResponse> {
  const end = rest.indexOf(' ')
  const text = bound.secret.sealOf(rest.slice(0, end)).open(rest.slice(end + 1))
  return text && readResponse(boundTo(bound), text)
}

/**
 * Finds keys, and writes nothing.
 *
 * @returns in the order of `asked`; undefined for a key that the store does not have
 * @throws (rejects) when the store cannot be asked
 */
export function findSharedKeys(
  settings: StoreSettings,
  secrets: KeySecrets,
  asked: readonly KeyOfCaller[],
): Promise<(FoundKey | undefined)[]> {
  const dialled = dialStore(settings, () => undefined)
  return withLink(dialled, 'the store', async (send) => {
    const keys = await agreedKeys(settings, send)
    return Promise.all(asked.map((one) => findSharedKey(send, placeOf(one, keys), secrets)))
  })
}

async function findSharedKey(
  send: Send,
  { key, id }: Pick<SharedKey, 'key' | 'id'>,
  secrets: KeySecrets,
): Promise<FoundKey | undefined> {
  const [value, time, leftMs] = await Promise.all([
    send(['GET', key], key),
    send(['TIME'], key),
    // The store's user may have no right to PTTL, which gateways do not need.
    send(['PTTL', key], key).catch(() => undefined),
  ])
  if (value === null) return undefined
  const nowMs = Array.isArray(time) ? Number(time[0]) * 1000 : Number.NaN
  if (typeof value !== 'string' || Number.isNaN(nowMs)) throw new Error('the store gave an unexpected reply')
  const [, state, lease, check = '', fingerprint = '', rest = ''] = VALUE.exec(value) ?? []
  if (state === undefined) return { state: 'damaged, in the shared store' }
  const leaseMs = Number(lease)
  const isUnderWay = (state === 'begun' || state === 'again') && nowMs < leaseMs
  const found = {
    state: isUnderWay ? 'begun' : state === 'done' ? 'done' : 'unknown',
    // Renewals move the lease of a key under way, so its beginning is not known.
    ...(!isUnderWay && { sinceMs: leaseMs }),
    ...(Number(leftMs) > 0 && { untilMs: nowMs + Number(leftMs) }),
  }
  const secret = secretNamed(secrets, check)
  if (secret === undefined)
    return { ...found, state: `${found.state}, under a line that "idempotencyKeyFile" does not have` }
  const { requestId, response } = unsealed({ id, fingerprint, secret }, rest) ?? {}
  if (state !== 'done') return { ...found, requestId }
  return response?.status ? { ...found, requestId, response } : { state: 'damaged, in the shared store' }
}
