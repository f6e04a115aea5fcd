import { createHmac, hkdfSync, randomBytes } from 'node:crypto'

/** A secret from which the keys of `day` and of all later days follow, but no earlier ones. */
export interface DayKey {
  readonly day: number
  readonly key: string
}

const DAY_MS = 86_400_000
/** 2026-01-01, the day of the first key of a shared secret. */
const FIRST_DAY = 20_454
/** 2126-01-01. A later clock is wrong, and hashing up to it would take too long. */
const LAST_DAY = FIRST_DAY + 36_524
/** Days that the clock may go back without effect, for corrections at midnight. */
const AHEAD_DAYS = 1
const KEY_BYTES = 32
/** Name, HMAC key and AES key, as Node wants them. */
const TICKET_KEY_BYTES = 48

/** For a process without a ticket key file. */
export function randomDayKey(nowMs: number): DayKey {
  return { day: dayOf(nowMs), key: randomBytes(KEY_BYTES).toString('hex') }
}

export function firstDayKey(secret: string): DayKey {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'countersign session tickets', KEY_BYTES))
  return { day: FIRST_DAY, key: key.toString('hex') }
}

/** Keys of session tickets, one a UTC day. Each is a hash of the one before, which is forgotten (forward secrecy). */
export class TicketKeys {
  readonly #first: DayKey | undefined
  #day: number
  #key: Buffer

  /** @param options `ofSecret`: other gateways have the secret of `start` too */
  constructor(start: DayKey, { ofSecret = false }: { readonly ofSecret?: boolean } = {}) {
    this.#first = ofSecret ? start : undefined
    this.#day = start.day
    this.#key = Buffer.from(start.key, 'hex')
  }

  /** @returns the present day's key, for another process */
  dayKey(nowMs: number): DayKey {
    const today = Math.min(dayOf(nowMs), LAST_DAY)
    if (today < this.#day - AHEAD_DAYS) this.#setBack(today)
    for (; this.#day < today; this.#day++) this.#replace('next day')
    return { day: this.#day, key: this.#key.toString('hex') }
  }

  /** Leaves a day that the clock reached too early: otherwise the key would stay the same until that day. */
  #setBack(today: number): void {
    if (this.#first === undefined) {
      this.#replace('clock set back')
      this.#day = today
    } else {
      this.#day = this.#first.day
      this.#key = Buffer.from(this.#first.key, 'hex')
    }
  }

  #replace(by: string): void {
    const next = createHmac('sha256', this.#key).update(by).digest()
    this.#key.fill(0)
    this.#key = next
  }

  /** @param certificate thumbprint: a session does not outlive the server's certificate */
  at(nowMs: number, certificate: string): Buffer {
    const { key } = this.dayKey(nowMs)
    return Buffer.from(hkdfSync('sha256', Buffer.from(key, 'hex'), '', certificate, TICKET_KEY_BYTES))
  }
}

function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS)
}
