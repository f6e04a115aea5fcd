import { openSync, readSync, writeSync } from 'node:fs'

/**
 * Loaded before a program (`--import`), this makes its time run faster. The date and the clock of the seals
 * (`process.hrtime.bigint`) run `TIME_LAPSE` times as fast (below 1: slower) from `TIME_LAPSE_FROM` (epoch ms), which
 * a test's programs share. Intervals and timeouts of half a minute or more are shortened too. Shorter ones stay for the
 * network. With `TIME_LAPSE_FILE`, date and clock are what a {@link SteppedClock} has last written there.
 */
const FACTOR = Number(process.env.TIME_LAPSE ?? '1')
const FROM_MS = Number(process.env.TIME_LAPSE_FROM ?? '0')
const FILE = process.env.TIME_LAPSE_FILE
const LONG_MS = 30_000
const NS_PER_MS = 1e6

if (FACTOR !== 1) speedUp()

/** A date that only the test moves, in a file that its programs read. A busy machine only makes the test longer. */
export class SteppedClock {
  readonly env: Readonly<Record<string, string>>
  readonly #fd: number
  #nowMs = 0

  constructor(file: string, startMs: number) {
    this.env = { TIME_LAPSE_FILE: file }
    this.#fd = openSync(file, 'w')
    this.advance(startMs)
  }

  get nowMs(): number {
    return this.#nowMs
  }

  advance(ms: number): void {
    this.#nowMs += ms
    writeSync(this.#fd, new Float64Array([this.#nowMs]), 0, Float64Array.BYTES_PER_ELEMENT, 0)
  }
}

function steppedDate(file: string): () => number {
  const fd = openSync(file, 'r')
  const date = new Float64Array(1)
  return () => {
    readSync(fd, date, 0, date.byteLength, 0)
    return date[0] as number
  }
}

function speedUp(): void {
  const RealDate = Date
  const now = FILE ? steppedDate(FILE) : () => Math.floor(FROM_MS + (RealDate.now() - FROM_MS) * FACTOR)
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, parts) => Reflect.construct(target, parts.length === 0 ? [now()] : parts),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  })
  const steady = process.hrtime.bigint
  process.hrtime.bigint = FILE
    ? () => BigInt(now() * NS_PER_MS)
    : () => BigInt(Math.round(Number(steady()) * FACTOR))
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const real = globalThis[name]
    const faster = (work: () => void, ms = 0, ...rest: unknown[]) =>
      Reflect.apply(real, globalThis, [work, ms >= LONG_MS ? ms / FACTOR : ms, ...rest])
    globalThis[name] = Object.assign(faster, real) as never
  }
}
