import type { Journaled } from './key-segment.ts'

export interface KeyEntry extends Journaled {
  readonly caller: string
  keepMs: number
  expiresAtMs: number
  state: 'in_progress' | 'unknown' | 'done'
  /** True while the outcome is still to be written. */
  isAwaited: boolean
  /** Another key with the same `codeOf`. Only `KeyIndex` writes this member and the two below. */
  sameCode: KeyEntry | undefined
  /** Neighbours among the keys of the caller. */
  older: KeyEntry | undefined
  newer: KeyEntry | undefined
}

export function keyEntry(id: string, caller: string, keepMs: number, expiresAtMs: number): KeyEntry {
  return {
    id,
    segment: undefined,
    slot: -1,
    at: 0,
    bytes: 0,
    caller,
    keepMs,
    expiresAtMs,
    state: 'in_progress',
    isAwaited: false,
    sameCode: undefined,
    older: undefined,
    newer: undefined,
  }
}

interface CallersKeys {
  size: number
  oldest: KeyEntry | undefined
  newest: KeyEntry | undefined
}

/** Place behind the name of the secret, which is the same in most ids. */
const CODE_FROM = 6

/** Finds keys by id, and by caller, oldest first. A Map of ids would be slower, as V8 interns each text looked up. */
export class KeyIndex {
  size = 0
  /** The first key of each code. `sameCode` leads to the others. */
  readonly #byCode = new Map<number, KeyEntry>()
  readonly #ofCallers = new Map<string, CallersKeys>()

  get(id: string): KeyEntry | undefined {
    let entry = this.#byCode.get(codeOf(id))
    while (entry !== undefined && entry.id !== id) entry = entry.sameCode
    return entry
  }

  *[Symbol.iterator](): IterableIterator<KeyEntry> {
    for (const first of this.#byCode.values())
      for (let entry: KeyEntry | undefined = first; entry !== undefined; entry = entry.sameCode) yield entry
  }

  /** @param entry with a new id */
  add(entry: KeyEntry): void {
    const code = codeOf(entry.id)
    entry.sameCode = this.#byCode.get(code)
    this.#byCode.set(code, entry)
    this.size += 1
    const own = this.#ofCallers.getOrInsertComputed(entry.caller, () => ({
      size: 0,
      oldest: undefined,
      newest: undefined,
    }))
    own.size += 1
    entry.older = own.newest
    if (own.newest === undefined) own.oldest = entry
    else own.newest.newer = entry
    own.newest = entry
  }

  delete(entry: KeyEntry): void {
    const own = this.#ofCallers.get(entry.caller)
    if (own === undefined || !this.#unchain(entry)) return
    this.size -= 1
    own.size -= 1
    if (own.size === 0) this.#ofCallers.delete(entry.caller)
    if (entry.older === undefined) own.oldest = entry.newer
    else entry.older.newer = entry.newer
    if (entry.newer === undefined) own.newest = entry.older
    else entry.newer.older = entry.older
  }

  /** @returns false when the entry is not here */
  #unchain(entry: KeyEntry): boolean {
    const code = codeOf(entry.id)
    const first = this.#byCode.get(code)
    if (first !== entry) {
      let before = first
      while (before !== undefined && before.sameCode !== entry) before = before.sameCode
      if (before !== undefined) before.sameCode = entry.sameCode
      return before !== undefined
    }
    if (entry.sameCode === undefined) this.#byCode.delete(code)
    else this.#byCode.set(code, entry.sameCode)
    return true
  }

  countOf(caller: string): number {
    return this.#ofCallers.get(caller)?.size ?? 0
  }

  /** The oldest key of a caller; `newer` leads to the others. */
  oldestOf(caller: string): KeyEntry | undefined {
    return this.#ofCallers.get(caller)?.oldest
  }
}

/** 30 bits of an id, which is a keyed hash. */
function codeOf(id: string): number {
  let code = 0
  for (let at = CODE_FROM; at < CODE_FROM + 5; at++) code = ((code << 6) ^ id.charCodeAt(at)) & 0x3fffffff
  return code
}
