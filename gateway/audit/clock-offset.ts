import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

export interface ClockOffset {
  /** Milliseconds to add to the clock (the offset of RFC 5905), with three decimals. */
  readonly clockOffsetMs: number
  readonly clockSource: string
}

interface Source {
  readonly program: string
  readonly args: readonly string[]
  /** @returns undefined when the clock is not synchronised, or the answer not understood */
  offsetMsIn(output: string): number | undefined
}

const SOURCES: readonly Source[] = [
  { program: 'chronyc', args: ['-n', '-c', 'tracking'], offsetMsIn: chronyOffsetMs },
  { program: 'ntpq', args: ['-n', '-c', 'rv 0 leap,offset'], offsetMsIn: ntpOffsetMs },
  { program: 'timedatectl', args: ['timesync-status'], offsetMsIn: timesyncOffsetMs },
]

const TIMEOUT_MS = 500
/** Steps of the timeout. A long pause of this thread counts as one. */
const BEATS = 10
const MAX_OUTPUT_BYTES = 16 * 1024

/** Asks the programs on PATH, all at once. The start of a missing program would cost 3 ms of CPU. Never rejects. */
export async function clockOffset(
  timeoutMs = TIMEOUT_MS,
  env: NodeJS.ProcessEnv = process.env,
): Promise<ClockOffset | undefined> {
  const places = env.PATH?.split(delimiter)
  const isThere = (program: string) => places?.some((place) => existsSync(join(place, program))) ?? true
  const asked = SOURCES.map((source) => isThere(source.program) && outputOf(source, timeoutMs, env))
  for (const [index, { program, offsetMsIn }] of SOURCES.entries()) {
    const clockOffsetMs = offsetMsIn((await asked[index]) || '')
    if (clockOffsetMs !== undefined) return { clockOffsetMs, clockSource: program }
  }
  return undefined
}

function outputOf({ program, args }: Source, timeoutMs: number, env: NodeJS.ProcessEnv): Promise<string> {
  return new Promise((resolve) => {
    const tooLate = new AbortController()
    const options = {
      signal: tooLate.signal,
      killSignal: 'SIGKILL',
      maxBuffer: MAX_OUTPUT_BYTES,
      env: { PATH: env.PATH, LC_ALL: 'C' },
    } as const
    // The start of the gateway keeps this thread busy, so a single timer could fire while an answer is still unread.
    let beats = 0
    const timer = setInterval(() => {
      if (++beats === BEATS) tooLate.abort()
    }, timeoutMs / BEATS)
    const give = (output: string) => {
      clearInterval(timer)
      resolve(output)
    }
    try {
      execFile(program, args, options, (error, stdout) => give(error === null ? stdout : ''))
    } catch {
      give('')
    }
  })
}

/** `chronyc -c`: the fifth value is the offset in seconds, the last the leap status. */
function chronyOffsetMs(output: string): number | undefined {
  const values = output.trim().split(',')
  return values.length < 14 || values.at(-1) === 'Not synchronised' ? undefined : rounded(values[4], 1000)
}

/** `leap=00, offset=-0.123`, in milliseconds. Leap 11, 3 or `leap_alarm` means not synchronised. */
function ntpOffsetMs(output: string): number | undefined {
  const leap = /\bleap=(\w+)/.exec(output)?.[1]
  if (leap === undefined || leap === '11' || leap === '3' || leap === 'leap_alarm') return undefined
  return rounded(/\boffset=([-+.\d]+)/.exec(output)?.[1], 1)
}

/** `Offset: -1.353ms` or `Offset: +1min 2.003s`. Before the first packet there is no such line. */
function timesyncOffsetMs(output: string): number | undefined {
  const [, sign, span] = /^\s*Offset: ([-+])(.+)$/m.exec(output) ?? []
  if (span === undefined) return undefined
  let offsetMs = 0
  for (const part of span.trim().split(' ')) {
    const [, number, unit = ''] = /^([\d.]+)([a-z]*)$/.exec(part) ?? []
    const unitMs = number === '0' ? 0 : UNITS_MS.get(unit)
    if (unitMs === undefined) return undefined
    offsetMs += Number(number) * unitMs
  }
  return rounded(String(sign === '-' ? -offsetMs : offsetMs), 1)
}

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ['us', 0.001],
  ['ms', 1],
  ['s', 1000],
  ['min', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
])

function rounded(text: string | undefined, factor: number): number | undefined {
  const value = Number(text || Number.NaN) * factor
  return Number.isFinite(value) ? Math.round(value * 1000) / 1000 : undefined
}
