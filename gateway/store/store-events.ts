import { messageOf } from '../terminal/printable.ts'
import type { StoreConnection } from './connection/store-connection.ts'
import type { Send, StoreReply } from './connection/store-link.ts'
import { isReply } from './store-breaker.ts'
import type { StoreKeys } from './store-keys.ts'

/** `ended`: a session ended. `failed`: a bad credential was presented. */
export type EventKind = 'ended' | 'failed'

interface StoreEventsOptions {
  /** A connection for the events alone, because its commands block. */
  readonly connection: Pick<StoreConnection, 'isReady' | 'send' | 'onReady' | 'reset' | 'close'>
  readonly keys: StoreKeys
  readonly id: string
  /** Reads what the stream cannot tell, each time before it is followed. */
  readonly beforeFollowing: (send: Send) => Promise<void>
  /** @param agoMs 0 also when an older gateway does not tell the age */
  readonly onEvent: (kind: EventKind, hash: string, agoMs: number) => void
  readonly onFault: (cause: string) => void
}

const BLOCK_MS = 1000
const SILENT_MS = 3000
const RETRY_MS = 500
const AT_ONCE = 1000
/** An attack from many addresses must not fill the store. A gateway that is further behind begins anew. */
export const MAX_STREAM = 100_000

/** The hash tag keeps all keys of a script on one server of a cluster. */
export function streamKey(keys: StoreKeys): string {
  return keys.common('{events}')
}

export class StoreEvents {
  readonly #options: StoreEventsOptions
  #isCurrent = false
  #wasComplete = false
  #following = false
  #isClosed = false

  constructor(options: StoreEventsOptions) {
    this.#options = options
    options.connection.onReady(() => {
      if (!this.#following) void this.#keepFollowing()
    })
  }

  /** True while all events of others are known, up to the last round trip. */
  get isCurrent(): boolean {
    return this.#isCurrent
  }

  get wasComplete(): boolean {
    return this.#wasComplete
  }

  restart(): void {
    this.#isCurrent = false
    this.#options.connection.reset('it has lost its data')
  }

  close(): void {
    this.#isClosed = true
    this.#options.connection.close()
  }

  /** Follows the stream until the connection is lost. The next connection begins again. Never rejects. */
  async #keepFollowing(): Promise<void> {
    const { connection, onFault } = this.#options
    this.#following = true
    let failures = 0
    while (!this.#isClosed && connection.isReady) {
      try {
        await this.#follow()
      } catch (error) {
        this.#isCurrent = false
        if (this.#isClosed) break
        if (isReply(error, 'READONLY')) connection.reset('it is a replica')
        // The connection reports its loss itself. At the first failure, the store may not have been reached yet.
        if ((++failures > 1 && connection.isReady) || error instanceof EventsGone)
          onFault(`events: ${messageOf(error)}`)
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref())
      }
    }
    this.#isCurrent = false
    this.#following = false
  }

  async #follow(): Promise<void> {
    const key = streamKey(this.#options.keys)
    // Writes a probe: only a replica refuses it with READONLY. A new connection may then lead to the new master.
    await this.#send(['SET', `${key}:probe`, '1', 'PX', '1'], key).catch((error: unknown) => {
      // A master that takes no writes can still be read.
      if (!isReply(error, '') || isReply(error, 'READONLY')) throw error
    })
    // Read first, so that no event during `beforeFollowing` is missed.
    let last = await this.#idBy('XREVRANGE', '+', '-')
    await this.#options.beforeFollowing(this.#send)
    this.#isCurrent = true
    this.#wasComplete = true
    for (;;) {
      const entries = await this.#read(key, last)
      if (entries.length === AT_ONCE && isAfter(await this.#idBy('XRANGE', '-', '+'), last)) {
        throw new EventsGone('fell so far behind that some events are gone')
      }
      for (const { id, fields } of entries) {
        last = id
        this.#apply(fields)
      }
    }
  }

  /** Newest id: `XREVRANGE + -`. Oldest: `XRANGE - +`. */
  async #idBy(command: string, from: string, to: string): Promise<string> {
    const key = streamKey(this.#options.keys)
    return entriesOf(await this.#send([command, key, from, to, 'COUNT', '1'], key))[0]?.id ?? '0-0'
  }

  async #read(key: string, after: string): Promise<readonly StreamEntry[]> {
    const args = ['XREAD', 'COUNT', String(AT_ONCE), 'BLOCK', String(BLOCK_MS), 'STREAMS', key, after]
    // `[[key, entries]]`; null when nothing came in time.
    const [stream] = ((await this.#send(args, key)) ?? []) as readonly (readonly [string, StoreReply])[]
    return stream === undefined ? [] : entriesOf(stream[1])
  }

  readonly #send: Send = async (args, key) => {
    const { connection } = this.#options
    const watchdog = setTimeout(() => connection.reset('it did not respond'), SILENT_MS).unref()
    try {
      return await connection.send(args, key)
    } finally {
      clearTimeout(watchdog)
    }
  }

  #apply([kind, hash, origin, agoMs = '0']: readonly string[]): void {
    if (origin === this.#options.id || hash === undefined) return
    if (kind === 'ended' || kind === 'failed') this.#options.onEvent(kind, hash, Number(agoMs) || 0)
  }
}

class EventsGone extends Error {}

interface StreamEntry {
  readonly id: string
  readonly fields: readonly string[]
}

function isAfter(id: string, other: string): boolean {
  const [ms = 0, n = 0] = id.split('-').map(Number)
  const [otherMs = 0, otherN = 0] = other.split('-').map(Number)
  return ms === otherMs ? n > otherN : ms > otherMs
}

function entriesOf(reply: StoreReply): readonly StreamEntry[] {
  if (!Array.isArray(reply)) return []
  return (reply as readonly (readonly [string, readonly string[]])[]).map(([id, pairs]) => ({
    id,
    fields: pairs.filter((_, i) => i % 2 === 1),
  }))
}
