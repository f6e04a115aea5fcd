import { once } from 'node:events'
import { connect } from 'node:net'
import { type RedisServer, until } from '../store/redis-server.test-support.ts'
import { TAKE_SCRIPT, TAKE_SHA } from '../store/take-script.ts'

/** Every take of one row and caller, as the store decided it. */
interface KeyDecisions {
  readonly limit: number
  readonly windowUs: number
  /** When the store counted each hit, by its clock in epoch microseconds, in order. */
  readonly hitsUs: number[]
  /** Refused takes: the time, and the hits counted by then. */
  readonly refused: { readonly atUs: number; readonly hits: number }[]
}

export interface StoreDecisions {
  /** The gateways' takes by row and caller, since the start or the last `forget`. */
  all(): KeyDecisions[]
  /** Waits until all commands that the store has carried out are read. */
  settled(): Promise<void>
  forget(): void
  close(): void
}

/** A line of `MONITOR`: the time, the client (`lua` for a script) and the words. */
const LINE = /^\+(\d+)\.(\d{6}) \[\d+ ([^\]]+)\] (.*)$/
const WORD = /"((?:[^"\\]|\\.)*)"/g
/** The times of line and script may differ by this much. */
const CLOCK_US = 1000

/** Reads takes from the server's `MONITOR`: for each hit that it counts, the script appends when it decided. */
export async function watchDecisions(redis: RedisServer): Promise<StoreDecisions> {
  // Otherwise each gateway's first EVALSHA would look like refused takes.
  await redis.command('SCRIPT', 'LOAD', TAKE_SCRIPT)
  const keys = new Map<string, KeyDecisions>()
  let batchAtUs = 0
  let asked: KeyDecisions | undefined
  let counted = false
  let marks = ''
  const endTake = () => {
    if (asked !== undefined && !counted) asked.refused.push({ atUs: batchAtUs, hits: asked.hitsUs.length })
    asked = undefined
  }
  const begin = (words: readonly string[]) => {
    const count = Number(words[2])
    for (let i = 0; i < count; i++) {
      const [limit = 0, windowMs = 0] = (words[3 + count + i] ?? '').split(' ').map(Number)
      const key = words[3 + i] as string
      if (!keys.has(key)) keys.set(key, { limit, windowUs: windowMs * 1000, hitsUs: [], refused: [] })
    }
  }
  const inScript = ([name, key = '', where, ...values]: readonly string[]) => {
    if (name === 'LINDEX' && where === '-1') {
      endTake()
      asked = keys.get(key)
      counted = false
    } else if (asked !== undefined && (name === 'RPUSH' || name === 'LSET')) {
      counted = true
      const [us] = (values.at(-1) ?? where ?? '').split(':')
      asked.hitsUs.push(Number(us))
    }
  }
  const socket = connect(redis.port, '127.0.0.1')
  await once(socket, 'connect')
  let rest = ''
  socket.on('data', (bytes: Buffer) => {
    const lines = (rest + bytes.toString('latin1')).split('\r\n')
    rest = lines.pop() as string
    for (const line of lines) {
      const [, seconds, micros, who, command] = LINE.exec(line) ?? []
      if (command === undefined) continue
      if (who === 'lua') {
        inScript(wordsOf(command))
        continue
      }
      endTake()
      if (command.includes('settled-')) marks = command
      if (!command.startsWith(`"EVALSHA" "${TAKE_SHA}"`)) continue
      batchAtUs = Number(seconds) * 1e6 + Number(micros)
      begin(wordsOf(command))
    }
  })
  socket.on('error', () => undefined)
  socket.write('MONITOR\r\n')
  const settled = async () => {
    const mark = `settled-${crypto.randomUUID()}`
    await redis.command('ECHO', mark)
    await until(() => marks.includes(mark), 'the last command')
  }
  await settled()
  return { all: () => [...keys.values()], settled, forget: () => keys.clear(), close: () => socket.destroy() }
}

function wordsOf(command: string): string[] {
  return [...command.matchAll(WORD)].map(([, word]) => word as string)
}

/**
 * Faults in the store's decisions, by its clock: more than `limit` hits within a window of any position, or a take
 * refused although fewer were counted in the window before it. Hits of a limit above 1,000 expire in slices, at most
 * a hundredth of the window late.
 */
export function faultsOf({ limit, windowUs, hitsUs, refused }: KeyDecisions): string[] {
  const faults: string[] = []
  for (let i = limit; i < hitsUs.length; i++) {
    const spanUs = (hitsUs[i] as number) - (hitsUs[i - limit] as number)
    if (spanUs < windowUs) faults.push(`${limit + 1} hits of ${limit} within ${spanUs} µs of ${windowUs}`)
  }
  const lateUs = (limit > 1000 ? windowUs / 100 : 0) + CLOCK_US
  for (const { atUs, hits } of refused) {
    const blocking = hitsUs[hits - limit]
    if (blocking === undefined) faults.push(`refused after ${hits} hits of ${limit}`)
    else if (atUs - blocking >= windowUs + lateUs)
      faults.push(`refused ${atUs - blocking} µs after hit ${hits}`)
  }
  return faults
}
