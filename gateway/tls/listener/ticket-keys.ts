import { createHmac, hkdfSync, randomBytes } from 'node:crypto'

/** From which the keys of that day and of all later ones follow, but of none before. Plain data, and a secret. */
export interface DayKey {
  /** Days since the epoch, in UTC. */
  readonly day: number
  /** 32 bytes in hex. */
  readonly key: string
}

const DAY_MS = 86_400_000
/** Where the days of a file's secret begin: 2026-01-01. */
const FIRST_DAY = 20_454
const KEY_BYTES = 32
/** Name, HMAC key and AES key, as Node wants them. */
const TICKET_KEY_BYTES = 48

/** A key that nobody else has, for a process without a file. */
export function randomDayKey(nowMs: number): DayKey {
  return { day: dayOf(nowMs), key: randomBytes(KEY_BYTES).toString('hex') }
}

/** The first day's key of a secret that several gateways share. */
export function firstDayKey(secret: string): DayKey {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'countersign session tickets', KEY_BYTES))
  return { day: FIRST_DAY, key: key.toString('hex') }
}

/**
 * The keys of TLS session tickets, one for each UTC day. That of the next day is a hash of that of the day before, which is then
 * forgotten: who reads the memory cannot open the tickets of earlier days.
 */
export class TicketKeys {
  #day: number
  #key: Buffer

  constructor({ day, key }: DayKey) {
    this.#day = day
    this.#key = Buffer.from(key, 'hex')
  }

  /** Goes on to the day that it is. A clock that was put back changes nothing. @returns that key, for another thread or process */
  dayKey(nowMs: number): DayKey {
    const today = dayOf(nowMs)
    for (; this.#day < today; this.#day++) {
      const next = createHmac('sha256', this.#key).update('next day').digest()
      this.#key.fill(0)
      this.#key = next
    }
    return { day: this.#day, key: this.#key.toString('hex') }
  }

  /**
   * The key of the tickets of now, for `server.setTicketKeys`.
   *
   * @param certificate thumbprint of the server's certificate: a session does not outlive its replacement
   */
  at(nowMs: number, certificate: string): Buffer {
    const { key } = this.dayKey(nowMs)
    return Buffer.from(hkdfSync('sha256', Buffer.from(key, 'hex'), '', certificate, TICKET_KEY_BYTES))
  }
}

function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS)
}
