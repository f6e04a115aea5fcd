/**
 * Loaded before a program (`--import`), makes its time run faster, so that a schedule of minutes passes in seconds. The date
 * runs `TIME_LAPSE` times as fast from the moment `TIME_LAPSE_FROM` (epoch milliseconds), which all programs of a test share, and so
 * does the clock of the seals (`process.hrtime.bigint`);
 * intervals and timeouts of half a minute and more are shortened too. Shorter ones stay, because they are for the network.
 * Below 1 it runs slower.
 */
const FACTOR = Number(process.env.TIME_LAPSE ?? '1')
const FROM_MS = Number(process.env.TIME_LAPSE_FROM ?? '0')
const LONG_MS = 30_000

if (FACTOR !== 1) speedUp()

/** The time that a program under `environment` sees when it is really `realMs`. */
export function lapsed(
  realMs: number,
  environment: { readonly factor: number; readonly fromMs: number },
): number {
  return environment.fromMs + (realMs - environment.fromMs) * environment.factor
}

function speedUp(): void {
  const RealDate = Date
  const now = () => Math.floor(lapsed(RealDate.now(), { factor: FACTOR, fromMs: FROM_MS }))
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, parts) => Reflect.construct(target, parts.length === 0 ? [now()] : parts),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  })
  const steady = process.hrtime.bigint
  process.hrtime.bigint = () => BigInt(Math.round(Number(steady()) * FACTOR))
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const real = globalThis[name]
    const faster = (work: () => void, ms = 0, ...rest: unknown[]) =>
      Reflect.apply(real, globalThis, [work, ms >= LONG_MS ? ms / FACTOR : ms, ...rest])
    globalThis[name] = Object.assign(faster, real) as never
  }
}
