import { CONNECTION_WINDOW } from './connection-frames.ts'
import {
  DEFAULT_WINDOW,
  frameOfNumbers,
  PREFACE,
  SETTINGS_MAX_CONCURRENT_STREAMS,
  SETTINGS_MAX_HEADER_LIST_SIZE,
  settingsFrame,
  WINDOW_UPDATE,
} from './frames.ts'
import { MAX_STREAMS } from './stream-places.ts'

/** What the gateway sends first on every connection (RFC 9113 section 3.4). */
export function greeting(maxHeadBytes: number): Buffer {
  return Buffer.concat([
    settingsFrame([
      [SETTINGS_MAX_CONCURRENT_STREAMS, MAX_STREAMS],
      [SETTINGS_MAX_HEADER_LIST_SIZE, maxHeadBytes],
    ]),
    frameOfNumbers(WINDOW_UPDATE, 0, CONNECTION_WINDOW - DEFAULT_WINDOW),
  ])
}

/** What the client sends first on every connection (RFC 9113 section 3.4). */
export class ClientPreface {
  #length = 0

  /** @returns where the frames begin in these bytes; undefined when they are no preface */
  read(bytes: Buffer): number | undefined {
    if (this.#length === PREFACE.length) return 0
    const length = Math.min(bytes.length, PREFACE.length - this.#length)
    const end = this.#length + length
    if (bytes.toString('latin1', 0, length) !== PREFACE.slice(this.#length, end)) return undefined
    this.#length = end
    return length
  }
}
