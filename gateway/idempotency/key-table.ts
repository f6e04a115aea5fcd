import { type KeyEntry, KeyIndex, keyEntry } from './key-index.ts'
import { KeyJournal, type KeyJournalOptions } from './key-journal.ts'
import { type KeptResponse, type KeyRecord, statusOf } from './key-record.ts'
import { type KeySecret, type KeySecrets, nameIn, secretNamed } from './key-secret.ts'

export interface KeyedRequest {
  readonly key: string
  /** Named by `callerOf`. A key belongs to one caller and one row. */
  readonly caller: string
  readonly row: string
  /** What must be the same when the key comes again. */
  readonly content: readonly (string | Uint8Array)[]
  readonly requestId: string
  readonly keepMs: number
  /** How many keys the caller may have at a time. */
  readonly maxKeys: number
  /** True if a request of unknown outcome is sent again, because the service can resolve it. */
  readonly resolves: boolean
  /** As in `KeyJournal.put`. */
  readonly isAtTurnEnd?: boolean
  /** While the shared store is away, `local` asks this gateway's own keys. Default: `deny`. */
  readonly onStoreFailure?: 'deny' | 'local'
}

export interface HeldKey {
  readonly entry: KeyEntry
  readonly requestId: string
  readonly fingerprint: string
  /** State of the key if this request is not carried out. `unknown`: an earlier request may have been. */
  readonly otherwise: 'free' | 'unknown'
}

export type Begun<Held = HeldKey> =
  | { readonly outcome: 'begun'; readonly held: Held }
  | { readonly outcome: 'done'; readonly requestId: string; readonly response: KeptResponse }
  /** Request that began the key, if known. */
  | { readonly outcome: 'unknown'; readonly requestId?: string | undefined }
  | { readonly outcome: 'in_progress' | 'reused' | 'too_many' | 'unavailable' }

/** `free`: the request was not carried out. `unknown`: it may have been. */
export type Finish = KeptResponse | 'free' | 'unknown'

/** An outcome for the process that has the files now. Plain data. */
export interface FinishedKey {
  readonly id: string
  readonly requestId: string
  /** With a body in base64. */
  readonly finish: Finish
}

export type OnFinished = (error?: Error) => void

/** One gateway's table, or a shared store. See the methods of `KeyTable`. */
export interface KeyKeeper<Held = unknown> {
  begin(request: KeyedRequest, run: (begun: Begun<Held>) => void): void
  finish(held: Held, finish: Finish, run: OnFinished): void
  rekey(secrets: KeySecrets): void
  close(): void
}

/** @param user `Principal.key` @param client that acts for the user, or is the caller itself */
export function callerOf(user: string, client = ''): string {
  return `${user}\0${client}`
}

type Elsewhere = (finished: FinishedKey, run: OnFinished) => void

/** A key takes about 500 bytes of memory. */
export const MAX_KEYS = 1_000_000
/** Beyond these bytes of records, only statuses are kept. The disk holds about twice as much. */
export const MAX_BYTES = 1024 * 1024 * 1024
const SWEPT_AT_ONCE = 5000
/** How many expired keys of its caller a request drops at most. It is more than the request adds. */
const SWEPT_OF_CALLER = 8
/** The longest `keep`, used for a damaged record. */
const DAMAGED_KEEP_MS = 30 * 86_400_000
const NOT_HERE = new Error('the idempotency key is not in progress here')

/**
 * The keys of one gateway. `begun` is durable before `begin` calls back, and the response before `finish` does, so
 * after a crash a key is done, free or unknown.
 */
export class KeyTable implements KeyKeeper<HeldKey> {
  readonly #options: KeyJournalOptions
  readonly #journal: KeyJournal
  #secrets: KeySecrets
  readonly #keys = new KeyIndex()
  #awaited = 0
  #sweep: Iterator<KeyEntry> | undefined
  /** Keys begun by the old process, which sends their outcomes. */
  readonly #inherited = new Set<KeyEntry>()
  #isSuspended = false
  /** Gets outcomes when another process has the files. */
  #elsewhere: Elsewhere | undefined
  /** Calls that wait until it is decided which process has the files. */
  #undecided: (readonly [HeldKey, Finish, OnFinished])[] = []

  /** @throws Error that names a file which cannot be read, or whose secret is gone, as its keys would be forgotten */
  constructor(options: KeyJournalOptions) {
    this.#options = options
    this.#secrets = options.secrets
    this.#journal = new KeyJournal(options)
    const shifts = this.#journal.load((id, head, place) => {
      const before = this.#keys.get(id)
      if (before !== undefined) this.#forget(before)
      const state = head?.state ?? 'begun'
      if (state === 'free') return
      // `expiresAtMs` is on the clock of its file, until all are read.
      const { keepMs, atMs } = head ?? { keepMs: DAMAGED_KEEP_MS, atMs: 0 }
      const entry = keyEntry(id, head?.caller ?? before?.caller ?? '', keepMs, atMs + keepMs)
      entry.state = state === 'begun' ? 'in_progress' : state
      this.#keys.add(entry)
      this.#journal.keep(entry, place)
    })
    for (const entry of this.#keys) entry.expiresAtMs += shifts.get(entry.segment) ?? 0
    this.#checkSecrets(options.secrets)
    this.#journal.begin()
    // A request in progress at the end of its process is unknown from now on.
    for (const entry of this.#keys)
      if (entry.state === 'in_progress') this.finish(this.#heldOf(entry), 'unknown', () => {})
    this.#journal.flush()
  }

  /** @throws Error when a kept key needs a missing secret. The key would not be found, and its request sent again */
  #checkSecrets(secrets: KeySecrets): void {
    const needed = new Set<string>()
    const nowMs = this.#options.clock()
    for (const entry of this.#keys)
      if (isOver(entry, nowMs)) this.#forget(entry)
      else needed.add(nameIn(entry.id))
    for (const name of [...needed, ...this.#journal.secretsInUse])
      if (secretNamed(secrets, name) === undefined)
        throw new Error(
          `${this.#options.directory} has keys that need a line that "idempotencyKeyFile" no longer has: put that line back, below the new one, until the keys have expired, or move the directory away, which forgets every key`,
        )
  }

  /** Takes other secrets. @throws Error when a secret that is still needed is missing, before anything changes */
  rekey(secrets: KeySecrets): void {
    const before = this.#secrets
    this.#journal.flush()
    if (before.some(({ name }) => secretNamed(secrets, name) === undefined)) {
      this.#checkSecrets(secrets)
      // Otherwise the next process could take expired keys for younger ones, and miss their secret.
      if (!this.#journal.markTime())
        throw new Error(
          `${this.#options.directory} cannot be written: leave the older lines in "idempotencyKeyFile" until it can be`,
        )
    }
    this.#secrets = secrets
    if (secrets[0].name !== before[0].name) this.#journal.rekey(secrets[0])
  }

  flush(): void {
    this.#journal.flush()
  }

  get size(): number {
    return this.#keys.size
  }

  get bytes(): number {
    return this.#journal.liveBytes
  }

  get isWritable(): boolean {
    // A key whose outcome could not be written would be unknown.
    return this.#journal.isWritable && this.#journal.reserve(this.#awaited + 1)
  }

  /** Calls back once, with `begun` when that record is durable. Never throws. */
  begin(request: KeyedRequest, run: (begun: Begun) => void): void {
    const nowMs = this.#options.clock()
    const { secret, caller, id, entry } = this.#find(request, nowMs)
    const fingerprint = secret.nameOf(...request.content)
    const known = entry && this.#outcomeOf(entry, fingerprint, request.resolves)
    if (known !== undefined) {
      run(known)
      return
    }
    const { requestId, keepMs } = request
    if (!this.isWritable || this.#keys.size >= MAX_KEYS || this.#isSuspended) run({ outcome: 'unavailable' })
    else if (entry !== undefined)
      this.#begin({ entry, requestId, fingerprint, otherwise: 'unknown' }, request, run)
    else if (this.#hasAll(request, caller, nowMs)) run({ outcome: 'too_many' })
    else {
      const begun = keyEntry(id, caller, keepMs, nowMs + keepMs)
      this.#keys.add(begun)
      this.#begin({ entry: begun, requestId, fingerprint, otherwise: 'free' }, request, run)
    }
  }

  #find({ caller, row, key }: KeyedRequest, nowMs: number): Found {
    let first: Found | undefined
    for (const secret of this.#secrets) {
      const name = secret.callerOf(caller)
      const id = secret.idOf(name, row, key)
      const entry = this.#keys.get(id)
      if (entry !== undefined && !isOver(entry, nowMs)) return { secret, caller: name, id, entry }
      if (entry !== undefined) this.#forget(entry)
      first ??= { secret, caller: name, id, entry: undefined }
    }
    return first as Found
  }

  #heldOf(entry: KeyEntry): HeldKey {
    const { requestId = '', fingerprint = '' } = this.#journal.read(entry) ?? {}
    return { entry, requestId, fingerprint, otherwise: 'free' }
  }

  /** @returns undefined when the request may be sent */
  #outcomeOf(entry: KeyEntry, fingerprint: string, resolves: boolean): Begun | undefined {
    const record = this.#journal.read(entry)
    // Without the fingerprint, nobody can tell whether the request is the same.
    if (!record?.fingerprint) return { outcome: entry.state === 'in_progress' ? 'in_progress' : 'unknown' }
    if (record.fingerprint !== fingerprint) return { outcome: 'reused' }
    if (entry.state === 'in_progress') return { outcome: 'in_progress' }
    const { requestId, response } = record
    if (entry.state === 'done' && response !== undefined) return { outcome: 'done', requestId, response }
    return resolves ? undefined : { outcome: 'unknown', requestId }
  }

  #begin(held: HeldKey, { keepMs, isAtTurnEnd }: KeyedRequest, run: (begun: Begun) => void): void {
    const { entry, requestId, fingerprint, otherwise } = held
    this.#await(entry, true)
    entry.state = 'in_progress'
    const { caller } = entry
    const atMs = this.#options.clock()
    this.#journal.put({
      id: entry.id,
      entry,
      record: { state: 'begun', caller, atMs, keepMs, fingerprint, requestId },
      isAtTurnEnd,
      run: (error, isWritten) => {
        if (error === undefined) {
          entry.keepMs = keepMs
          entry.expiresAtMs = atMs + keepMs
          run({ outcome: 'begun', held })
        } else if (isWritten) {
          // The request was not sent.
          this.finish(held, 'free', () => run({ outcome: 'unavailable' }))
        } else {
          this.#await(entry, false)
          if (otherwise === 'free') this.#forget(entry)
          else entry.state = otherwise
          run({ outcome: 'unavailable' })
        }
      },
    })
  }

  /**
   * Calls back once, when the outcome is durable, or with an error when a response cannot be written. The outcome is
   * then unknown.
   */
  finish(held: HeldKey, outcome: Finish, run: OnFinished): void {
    const { entry, requestId, fingerprint, otherwise } = held
    const finish = outcome === 'free' ? otherwise : outcome
    if (this.#elsewhere !== undefined) {
      this.#elsewhere({ id: entry.id, requestId, finish: encoded(finish, 'latin1', 'base64') }, run)
      return
    }
    if (this.#isSuspended) {
      this.#undecided.push([held, finish, run])
      return
    }
    const atMs = this.#options.clock()
    const { caller, keepMs } = entry
    this.#await(entry, false)
    entry.expiresAtMs = atMs + keepMs
    const response = typeof finish === 'string' ? undefined : this.#kept(finish)
    const state = typeof finish === 'string' ? finish : 'done'
    // A response that is not durable yet goes to nobody, because a crash could make the outcome unknown.
    if (state === 'free') this.#forget(entry)
    else if (state === 'unknown') entry.state = 'unknown'
    this.#journal.put({
      id: entry.id,
      entry,
      record: { state, caller, atMs, keepMs, fingerprint, requestId, response },
      run: (error) => {
        // If `free` or `unknown` cannot be written, the next start takes the key for unknown.
        if (state === 'done') entry.state = error === undefined ? 'done' : 'unknown'
        run(state === 'done' ? error : undefined)
      },
    })
  }

  #kept(response: KeptResponse): KeptResponse {
    const { maxBytes = MAX_BYTES } = this.#options
    return this.#journal.liveBytes < maxBytes ? response : statusOf(response)
  }

  maintain(): void {
    if (this.#isSuspended) return
    this.#sweepSome()
    this.#journal.maintain((entry) => this.#again(entry as KeyEntry))
  }

  /** Makes the last record of a key again, from what is known. */
  #again(entry: KeyEntry): KeyRecord {
    const { caller, state, keepMs, expiresAtMs } = entry
    const known = this.#journal.read(entry) ?? {
      state: state === 'in_progress' ? ('begun' as const) : state,
      caller,
      fingerprint: '',
      requestId: '',
    }
    return { ...known, atMs: expiresAtMs - keepMs, keepMs }
  }

  #sweepSome(): void {
    const nowMs = this.#options.clock()
    this.#sweep ??= this.#keys[Symbol.iterator]()
    for (let left = SWEPT_AT_ONCE; left > 0; left--) {
      const { value, done } = this.#sweep.next()
      if (done === true) {
        this.#sweep = undefined
        return
      }
      if (isOver(value, nowMs)) this.#forget(value)
    }
  }

  /** True when the caller has `maxKeys`, after some expired keys were dropped. @param name under the first secret */
  #hasAll({ caller, maxKeys }: KeyedRequest, name: string, nowMs: number): boolean {
    const [, ...older] = this.#secrets
    const names = [name, ...older.map((secret) => secret.callerOf(caller))]
    let count = 0
    for (const one of names) count += this.#keys.countOf(one)
    if (count < maxKeys) return false
    let left = SWEPT_OF_CALLER
    for (const one of names)
      for (let entry = this.#keys.oldestOf(one); entry !== undefined; entry = entry.newer) {
        if (left-- <= 0 || !isOver(entry, nowMs)) break
        this.#forget(entry)
        count -= 1
      }
    return count >= maxKeys
  }

  #await(entry: KeyEntry, isAwaited: boolean): void {
    if (entry.isAwaited !== isAwaited) this.#awaited += isAwaited ? 1 : -1
    entry.isAwaited = isAwaited
  }

  #forget(entry: KeyEntry): void {
    this.#keys.delete(entry)
    this.#journal.forget(entry)
  }

  /** Writes nothing until `resume` or `leaveTo`. Another process may take the files. @returns ids of keys under way */
  suspend(): readonly string[] {
    this.#isSuspended = true
    this.#journal.suspend()
    const ids: string[] = []
    for (const { id, isAwaited } of this.#keys) if (isAwaited) ids.push(id)
    return ids
  }

  resume(): void {
    if (!this.#isSuspended) return
    this.#isSuspended = false
    this.#journal.resume()
    for (const undecided of this.#undecided.splice(0)) this.finish(...undecided)
  }

  /** Leaves the files to another process, and sends it the outcomes of keys in progress. */
  leaveTo(elsewhere: Elsewhere): void {
    this.#elsewhere = elsewhere
    for (const undecided of this.#undecided.splice(0)) this.finish(...undecided)
  }

  /** Marks keys as in progress at the old process, until `apply` or `release`. */
  inherit(ids: readonly string[]): void {
    for (const id of ids) {
      const entry = this.#keys.get(id)
      if (entry?.state !== 'unknown') continue
      entry.state = 'in_progress'
      this.#inherited.add(entry)
      this.#await(entry, true)
    }
  }

  apply({ id, requestId, finish }: FinishedKey, run: OnFinished): void {
    const entry = this.#keys.get(id)
    if (entry === undefined || !this.#inherited.delete(entry)) run(NOT_HERE)
    else this.finish({ ...this.#heldOf(entry), requestId }, encoded(finish, 'base64', 'latin1'), run)
  }

  release(): void {
    for (const entry of this.#inherited) {
      entry.state = 'unknown'
      this.#await(entry, false)
    }
    this.#inherited.clear()
  }

  close(): void {
    this.#journal.close()
  }
}

function encoded(finish: Finish, from: 'latin1' | 'base64', to: 'latin1' | 'base64'): Finish {
  if (typeof finish === 'string' || finish.body === undefined) return finish
  return { ...finish, body: Buffer.from(finish.body, from).toString(to) }
}

interface Found {
  readonly secret: KeySecret
  readonly caller: string
  readonly id: string
  readonly entry: KeyEntry | undefined
}

/** A request under way never expires. */
function isOver({ state, expiresAtMs }: KeyEntry, nowMs: number): boolean {
  return state !== 'in_progress' && nowMs >= expiresAtMs
}
