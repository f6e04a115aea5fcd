import { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'

/**
 * A connection without a network, with the parts of a socket that a server uses. The client's bytes come in exactly the
 * pieces in which it sends them. Between two pieces nothing happens that the test does not ask for.
 */
export class Wire extends Duplex {
  readonly remoteAddress: string | undefined
  bytesRead = 0
  bytesWritten = 0
  /** What the client has been sent. */
  received = ''
  wasReset = false
  /** True while the client takes nothing. */
  #stalled = false
  #taken: (() => void) | undefined = undefined

  constructor(remoteAddress: string | undefined = '192.0.2.1') {
    super({ allowHalfOpen: true })
    this.remoteAddress = remoteAddress
  }

  setNoDelay(): this {
    return this
  }

  setTimeout(): this {
    return this
  }

  destroySoon(): void {
    if (!this.writableEnded) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }

  resetAndDestroy(): this {
    this.wasReset = true
    return this.destroy()
  }

  /** The client sends a piece. */
  send(text: string): void {
    if (this.destroyed || text === '') return
    this.bytesRead += text.length
    this.push(Buffer.from(text, 'latin1'))
  }

  /** The client closes its half. */
  sendEnd(): void {
    if (!this.destroyed && !this.readableEnded) this.push(null)
  }

  /** The client stops or resumes taking what it is sent. */
  stall(stalled: boolean): void {
    this.#stalled = stalled
    const taken = this.#taken
    if (stalled || taken === undefined) return
    this.#taken = undefined
    taken()
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, taken: () => void): void {
    this.received += bytes.toString('latin1')
    this.bytesWritten += bytes.length
    if (this.#stalled) this.#taken = taken
    else taken()
  }
}

/** Waits until nothing more happens by itself. */
export async function turns(count = 4): Promise<void> {
  for (let i = 0; i < count; i++) await turn()
}
