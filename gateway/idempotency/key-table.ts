import { KeyJournal, type KeyJournalOptions } from './key-journal.ts'
import type { KeptResponse, KeyRecord } from './key-record.ts'
import type { Journaled } from './key-segment.ts'

/** A request with a key. */
export interface KeyedRequest {
  readonly key: string
  /** Who sends it: the key belongs to them and to the row. */
  readonly caller: readonly string[]
  readonly row: string
  /** What must be the same when the key comes again: method, target, content type, body. */
  readonly content: readonly (string | Uint8Array)[]
  readonly requestId: string
  readonly keepMs: number
  /** Keys of one caller that are kept at a time. */
  readonly maxKeys: number
  /** A request whose outcome is unknown is sent again: the service resolves it. */
  readonly resolves: boolean
  /** Where gateways share a store: `local` asks this gateway's keys alone while it is away. Default: `deny`. */
  readonly onStoreFailure?: 'deny' | 'local'
}

interface KeyEntry extends Journaled {
  readonly caller: string
  keepMs: number
  expiresAtMs: number
  state: 'in_progress' | 'unknown' | 'done'
}

/** A key that has begun. `finish` must follow. */
export interface HeldKey {
  readonly entry: KeyEntry
  readonly requestId: string
  readonly fingerprint: string
  /** What it is when this request was not carried out: an earlier one may have been. */
  readonly otherwise: 'free' | 'unknown'
}

export type Begun<Held = HeldKey> =
  | { readonly outcome: 'begun'; readonly held: Held }
  | { readonly outcome: 'done'; readonly requestId: string; readonly response: KeptResponse }
  | { readonly outcome: 'in_progress' | 'unknown' | 'reused' | 'too_many' | 'unavailable' }

/** `free`: the request was not sent. `unknown`: it was, and there is no whole response. */
export type Finish = KeptResponse | 'free' | 'unknown'

/** An outcome for the process that has the files now. Plain data. */
export interface FinishedKey {
  readonly id: string
  readonly requestId: string
  /** The body in base64. */
  readonly finish: (Omit<KeptResponse, 'body'> & { readonly body: string | undefined }) | 'free' | 'unknown'
}

export type OnFinished = (error?: Error) => void

/** Where keys are kept: the table of one gateway, or the store that gateways share. See the methods of `KeyTable`. */
export interface KeyKeeper<Held = unknown> {
  begin(request: KeyedRequest, run: (begun: Begun<Held>) => void): void
  finish(held: Held, finish: Finish, run: OnFinished): void
  close(): void
}

type Elsewhere = (finished: FinishedKey, run: OnFinished) => void

/** About 500 bytes of memory each. */
const MAX_KEYS = 1_000_000
/** Beyond it only statuses are kept. The disk holds about twice as much. */
const MAX_BYTES = 1024 * 1024 * 1024
/** Looked at in each second. */
const SWEPT_AT_ONCE = 5000
/** More than one request adds. */
const SWEPT_OF_CALLER = 8
/** The longest `keep`: how long a key was to be kept stands in its record. */
const DAMAGED_KEEP_MS = 30 * 86_400_000
const UNWRITTEN = new Error('the outcome of an idempotency key cannot be written')

/**
 * The keys of one gateway. A crash at any time leaves a key done, free or unknown: `begun` is durable before `begin` calls back, and
 * the response before `finish` does.
 */
export class KeyTable implements KeyKeeper<HeldKey> {
  readonly #options: KeyJournalOptions
  readonly #journal: KeyJournal
  readonly #keys = new Map<string, KeyEntry>()
  /** Oldest first. */
  readonly #ofCallers = new Map<string, Set<KeyEntry>>()
  /** Their outcomes are still to be written. */
  readonly #inProgress = new Set<KeyEntry>()
  #sweep: Iterator<KeyEntry> | undefined
  /** Begun by the process before, which sends their outcomes. */
  readonly #inherited = new Set<KeyEntry>()
  /** Another process may have the files. */
  #isSuspended = false
  /** Gets outcomes when another process has them. */
  #elsewhere: Elsewhere | undefined
  /** Outcomes that came before it was decided which process goes on, with what to call. */
  #undecided: (readonly [HeldKey, Finish, OnFinished])[] = []

  /** @throws Error that names a file which cannot be read: its keys would be forgotten */
  constructor(options: KeyJournalOptions) {
    this.#options = options
    this.#journal = new KeyJournal(options)
    const shifts = this.#journal.load((id, head, place) => {
      const before = this.#keys.get(id)
      if (before !== undefined) this.#forget(before)
      const state = head?.state ?? 'begun'
      if (state === 'free') return
      // In the clock of its file, until all are read.
      const { keepMs, atMs } = head ?? { keepMs: DAMAGED_KEEP_MS, atMs: 0 }
      const entry: KeyEntry = {
        ...{ id, segment: undefined, at: 0, bytes: 0, keepMs },
        caller: head?.caller ?? before?.caller ?? '',
        expiresAtMs: atMs + keepMs,
        state: state === 'begun' ? 'in_progress' : state,
      }
      this.#remember(entry)
      this.#journal.keep(entry, place)
    })
    for (const entry of this.#keys.values()) {
      if (entry.state !== 'in_progress') entry.expiresAtMs += shifts.get(entry.segment) ?? 0
      // However long it has taken: it is unknown from now on.
      else this.finish(this.#heldOf(entry), 'unknown', () => {})
    }
  }

  get isWritable(): boolean {
    // A key whose outcome could not be written would be unknown.
    return this.#journal.isWritable && this.#journal.reserve(this.#inProgress.size + 1)
  }

  /** Calls back once, at once unless the disk is waited for. Never throws. */
  begin(request: KeyedRequest, run: (begun: Begun) => void): void {
    const { secret, clock } = this.#options
    const nowMs = clock()
    const caller = secret.nameOf(...request.caller)
    const id = secret.idOf(caller, request.row, request.key)
    const fingerprint = secret.nameOf(...request.content)
    let entry = this.#keys.get(id)
    if (entry !== undefined && isOver(entry, nowMs)) {
      this.#forget(entry)
      entry = undefined
    }
    const known = entry && this.#outcomeOf(entry, fingerprint, request.resolves)
    if (known !== undefined) {
      run(known)
      return
    }
    if (!this.isWritable || this.#keys.size >= MAX_KEYS || this.#isSuspended) run({ outcome: 'unavailable' })
    else if (entry === undefined && this.#hasAll(caller, request.maxKeys, nowMs)) run({ outcome: 'too_many' })
    else this.#begin({ ...request, id, callerName: caller, fingerprint, nowMs }, entry, run)
  }

  /** A key of an earlier process, or of the one before. */
  #heldOf(entry: KeyEntry): HeldKey {
    const { requestId = '', fingerprint = '' } = this.#journal.read(entry) ?? {}
    return { entry, requestId, fingerprint, otherwise: 'free' }
  }

  /** Undefined when the request may be sent. */
  #outcomeOf(entry: KeyEntry, fingerprint: string, resolves: boolean): Begun | undefined {
    const record = this.#journal.read(entry)
    // What a damaged record was sent with is not known, so nothing can resolve it.
    if (!record?.fingerprint) return { outcome: entry.state === 'in_progress' ? 'in_progress' : 'unknown' }
    if (record.fingerprint !== fingerprint) return { outcome: 'reused' }
    if (entry.state === 'in_progress') return { outcome: 'in_progress' }
    const { requestId, response } = record
    if (entry.state === 'done' && response !== undefined) return { outcome: 'done', requestId, response }
    return resolves ? undefined : { outcome: 'unknown' }
  }

  #begin(
    {
      id,
      callerName,
      fingerprint,
      nowMs,
      requestId,
      keepMs,
    }: KeyedRequest & Named & { readonly nowMs: number },
    before: KeyEntry | undefined,
    run: (begun: Begun) => void,
  ): void {
    const entry: KeyEntry = before ?? {
      ...{ id, caller: callerName, segment: undefined, at: 0, bytes: 0 },
      ...{ keepMs, expiresAtMs: 0, state: 'in_progress' },
    }
    const record: KeyRecord = {
      ...{ state: 'begun', caller: callerName, fingerprint, requestId, atMs: nowMs, keepMs },
    }
    if (!this.#journal.append(entry, record)) {
      run({ outcome: 'unavailable' })
      return
    }
    this.#inProgress.add(entry)
    entry.state = 'in_progress'
    entry.keepMs = keepMs
    entry.expiresAtMs = nowMs + keepMs
    if (before === undefined) this.#remember(entry)
    const otherwise: HeldKey['otherwise'] = before === undefined ? 'free' : 'unknown'
    const held = { entry, requestId, fingerprint, otherwise }
    this.#journal.whenDurable((error) => {
      if (error === undefined) {
        run({ outcome: 'begun', held })
        return
      }
      // It was not sent.
      this.finish(held, 'free', () => run({ outcome: 'unavailable' }))
    })
  }

  /**
   * Ends what `begin` has begun. Calls back once, when the outcome is durable; with an error when it cannot be written, so that it is
   * unknown. A full disk takes at least the status of a response.
   */
  finish(held: HeldKey, outcome: Finish, run: OnFinished): void {
    const { entry, requestId, fingerprint, otherwise } = held
    const finish = outcome === 'free' ? otherwise : outcome
    if (this.#elsewhere !== undefined) {
      this.#elsewhere({ id: entry.id, requestId, finish: portable(finish) }, run)
      return
    }
    if (this.#isSuspended) {
      this.#undecided.push([held, finish, run])
      return
    }
    const atMs = this.#options.clock()
    this.#inProgress.delete(entry)
    entry.expiresAtMs = atMs + entry.keepMs
    const { caller, keepMs } = entry
    const common = { caller, fingerprint, requestId, atMs, keepMs }
    if (finish === 'unknown') {
      entry.state = 'unknown'
      // Where it cannot be written, the next start says so too.
      this.#journal.append(entry, { state: 'unknown', ...common })
      run()
    } else if (finish === 'free') {
      const record: KeyRecord = { state: 'free', ...common }
      // Where neither can be written, the next start does not know that it was not sent.
      if (!this.#journal.append(entry, record)) this.#journal.appendShort(entry, record)
      this.#forget(entry)
      run()
    } else this.#finishDone(entry, { state: 'done', ...common, response: finish }, run)
  }

  /** Until it is durable, nobody gets the response: a crash could make it unknown. */
  #finishDone(
    entry: KeyEntry,
    record: KeyRecord & { readonly response: KeptResponse },
    run: OnFinished,
  ): void {
    const short = { ...record, response: { status: record.response.status, fields: [], body: undefined } }
    const end = (error?: Error) => {
      entry.state = error === undefined ? 'done' : 'unknown'
      run(error)
    }
    const isRoom = this.#journal.liveBytes < (this.#options.maxBytes ?? MAX_BYTES)
    if ((isRoom && this.#journal.append(entry, record)) || this.#journal.appendShort(entry, short))
      this.#journal.whenDurable(end)
    else end(UNWRITTEN)
  }

  /** To be called once a second and at the end. */
  maintain(): void {
    if (this.#isSuspended) return
    this.#sweepSome()
    this.#journal.maintain((entry) => this.#again(entry as KeyEntry))
  }

  /** The last record of a key as it is written again; one that cannot be read is made of what is known. */
  #again(entry: KeyEntry): KeyRecord {
    const { caller, state, keepMs, expiresAtMs } = entry
    const known = this.#journal.read(entry) ?? {
      ...{ caller, fingerprint: '', requestId: '' },
      state: state === 'in_progress' ? ('begun' as const) : state,
    }
    return { ...known, atMs: expiresAtMs - keepMs, keepMs }
  }

  #sweepSome(): void {
    const nowMs = this.#options.clock()
    this.#sweep ??= this.#keys.values()
    for (let left = SWEPT_AT_ONCE; left > 0; left--) {
      const { value, done } = this.#sweep.next()
      if (done === true) {
        this.#sweep = undefined
        return
      }
      if (isOver(value, nowMs)) this.#forget(value)
    }
  }

  /** A caller has as many keys as it may, without those that are over. */
  #hasAll(caller: string, maxKeys: number, nowMs: number): boolean {
    const own = this.#ofCallers.get(caller)
    if (own === undefined || own.size < maxKeys) return false
    let left = SWEPT_OF_CALLER
    for (const entry of own) {
      if (left-- === 0 || !isOver(entry, nowMs)) break
      this.#forget(entry)
    }
    return own.size >= maxKeys
  }

  #remember(entry: KeyEntry): void {
    this.#keys.set(entry.id, entry)
    const own = this.#ofCallers.get(entry.caller)
    if (own === undefined) this.#ofCallers.set(entry.caller, new Set([entry]))
    else own.add(entry)
  }

  #forget(entry: KeyEntry): void {
    this.#keys.delete(entry.id)
    this.#journal.forget(entry)
    const own = this.#ofCallers.get(entry.caller)
    own?.delete(entry)
    if (own?.size === 0) this.#ofCallers.delete(entry.caller)
  }

  /** Writes nothing more, until `resume` or `leaveTo`: another process may take the files. @returns the keys in progress */
  suspend(): readonly string[] {
    this.#isSuspended = true
    this.#journal.suspend()
    return [...this.#inProgress].map(({ id }) => id)
  }

  /** After `suspend`: the files are this process's again. */
  resume(): void {
    this.#isSuspended = false
    this.#journal.resume()
    for (const undecided of this.#undecided.splice(0)) this.finish(...undecided)
  }

  /** After `suspend`: another process has the files, and gets the outcomes of what is still in progress here. */
  leaveTo(elsewhere: Elsewhere): void {
    this.#elsewhere = elsewhere
    for (const undecided of this.#undecided.splice(0)) this.finish(...undecided)
  }

  /** Keys that the process before has begun are in progress there, until `apply` or `release`. */
  inherit(ids: readonly string[]): void {
    for (const id of ids) {
      const entry = this.#keys.get(id)
      if (entry?.state !== 'unknown') continue
      entry.state = 'in_progress'
      this.#inherited.add(entry)
      this.#inProgress.add(entry)
    }
  }

  /** As `finish`, for the process before. */
  apply({ id, requestId, finish }: FinishedKey, run: OnFinished): void {
    const entry = this.#keys.get(id)
    if (entry === undefined || !this.#inherited.delete(entry)) run(UNWRITTEN)
    else this.finish({ ...this.#heldOf(entry), requestId }, carried(finish), run)
  }

  /** The process before has ended: what it has not finished is unknown. */
  release(): void {
    for (const entry of this.#inherited) {
      entry.state = 'unknown'
      this.#inProgress.delete(entry)
    }
    this.#inherited.clear()
  }

  close(): void {
    this.#journal.close()
  }
}

function portable(finish: Finish): FinishedKey['finish'] {
  return typeof finish === 'string' ? finish : { ...finish, body: finish.body?.toString('base64') }
}

function carried(finish: FinishedKey['finish']): Finish {
  if (typeof finish === 'string') return finish
  const { body } = finish
  return { ...finish, body: body === undefined ? undefined : Buffer.from(body, 'base64') }
}

interface Named {
  readonly id: string
  readonly callerName: string
  readonly fingerprint: string
}

/** A request under way is never over. */
function isOver({ state, expiresAtMs }: KeyEntry, nowMs: number): boolean {
  return state !== 'in_progress' && nowMs >= expiresAtMs
}
