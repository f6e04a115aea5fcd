import { setTimeout as delay } from 'node:timers/promises'
import type { StoreSettings } from '../../config/rules/store-address.ts'
import { messageOf } from '../../terminal/printable.ts'
import { dialStore, retryAfterMs, type StoreLink, type StoreReply } from './store-link.ts'

/** A proxy without a server, and a server that is full, end a connection sooner. */
const AT_ONCE_MS = 250

/**
 * A connection that renews itself. It sends the commands of one turn of the event loop in one write. A blocking command
 * holds up all later commands, so a stream needs its own connection.
 */
export class StoreConnection {
  readonly #settings: StoreSettings
  readonly #onFault: ((cause: string) => void) | undefined
  readonly #listeners: (() => void)[] = []
  readonly #closing = new AbortController()
  #link: StoreLink | undefined

  /** Connects in the background. @param onFault gets each failure to connect and each loss */
  constructor(settings: StoreSettings, onFault?: (cause: string) => void) {
    this.#settings = settings
    this.#onFault = onFault
    void this.#keep()
  }

  get isReady(): boolean {
    return this.#link !== undefined
  }

  /**
   * Sends a command. Without a connection, rejects at once.
   *
   * @param args must not change afterwards @param key by which a cluster finds the server; undefined for any server
   * @throws (rejects) an error of the server or connection; the server may have carried out the command
   */
  send(args: readonly string[], key?: string): Promise<StoreReply> {
    const link = this.#link
    return link === undefined ? Promise.reject(new Error('not connected')) : link.send(args, key)
  }

  /** Calls `listener` at each connection, also the present one. The server may have lost scripts and data. */
  onReady(listener: () => void): void {
    this.#listeners.push(listener)
    if (this.#link !== undefined) listener()
  }

  /** Commands in flight reject. @param cause is reported */
  reset(cause: string): void {
    const link = this.#link
    this.#link = undefined
    link?.destroy(new Error(cause))
  }

  close(): void {
    this.#closing.abort()
    this.reset('closed')
  }

  /** Never rejects. */
  async #keep(): Promise<void> {
    const { signal } = this.#closing
    let tries = 0
    while (!signal.aborted) {
      try {
        const link = await dialStore(this.#settings, () => this.#tellReady())
        if (signal.aborted) return link.destroy(new Error('closed'))
        this.#link = link
        this.#tellReady()
        const sinceMs = performance.now()
        const cause = await link.ended
        if (performance.now() - sinceMs > AT_ONCE_MS) tries = 0
        // Replies that make no sense end the link, but not its socket.
        link.destroy(cause)
        throw cause
      } catch (error) {
        this.#link = undefined
        if (signal.aborted) return
        this.#onFault?.(messageOf(error))
      }
      await delay(retryAfterMs(tries++), undefined, { signal, ref: false }).catch(() => undefined)
    }
  }

  #tellReady(): void {
    if (this.#link !== undefined) for (const listener of this.#listeners) listener()
  }
}
