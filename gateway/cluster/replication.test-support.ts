import { parentPort, workerData } from 'node:worker_threads'
import { pino } from 'pino'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import type { WorkerConfiguration } from './worker-configuration.ts'
import { joinState } from './worker-state.ts'

/** What a test asks of a thread that counts like a worker, without a listener. */
export type Task =
  /** Takes as fast as it can. Answers with the times at which it was let through, by row and key. */
  | ({ readonly task: 'hammer' } & Hammering)
  /** Answers with everything that counts at that time. */
  | { readonly task: 'state'; readonly atMs: number }
  /** Answers with the messages that passed. */
  | {
      readonly task: 'replay'
      readonly memory: 'proofs' | 'deliveries'
      readonly messages: readonly string[]
    }
  | { readonly task: 'revoke'; readonly sid: string }
  | { readonly task: 'isRevoked'; readonly sid: string }
  | { readonly task: 'guess'; readonly key: string; readonly times: number }
  | { readonly task: 'blocked'; readonly key: string }
  /** Ends in the middle of a step, so that it cannot be left. Answers before. */
  | { readonly task: 'dieWithin' }

/** It lasts until all of it is true, however slow the machine is. */
export interface Hammering {
  readonly keys: readonly string[]
  /** So long has it lasted. */
  readonly forMs: number
  /** So often has the table changed since its beginning; default: 0. */
  readonly changes?: number
  /** So often has the thread asked since then. */
  readonly least: number
}

const begun = workerData as WorkerConfiguration
let rows: readonly LimitRow[] = begun.rows
let tables = 0
const eventLog = new EventLog({
  memory: begun.memory,
  seat: begun.seat,
  clock: commonClock(begun.originMs),
  onLost: (error) => {
    throw error
  },
})
const startup = {
  settings: begun.settings,
  version: '',
  limits: { text: '', value: rows },
  log: pino({ level: 'silent' }),
} as Partial<StartupConfiguration> as StartupConfiguration
const { limiter, proofs, deliveries, revocations, throttle } = joinState(begun, {
  startup,
  watch: { fault() {}, removed() {}, observe() {} } as Partial<StoreWatch> as StoreWatch,
  eventLog,
})
const replace = limiter.replace.bind(limiter)
limiter.replace = (changed, atMs) => {
  replace(changed, atMs)
  rows = changed
  tables += 1
}
const memories = { proofs, deliveries }
setInterval(() => eventLog.catchUp(), 5)
parentPort?.on('message', (task: Task) => parentPort?.postMessage(perform(task)))
parentPort?.postMessage('ready')

function perform(task: Task): unknown {
  switch (task.task) {
    case 'hammer':
      return hammer(task)
    case 'state':
      eventLog.catchUp()
      return state(task.atMs)
    case 'replay':
      return task.messages.filter((message) => memories[task.memory].take(message) === undefined)
    case 'revoke':
      return revocations.revoke(task.sid)
    case 'isRevoked':
      return revocations.isRevoked(task.sid)
    case 'guess':
      for (let i = 0; i < task.times; i++) throttle?.failed(task.key)
      return undefined
    case 'blocked':
      return throttle?.blockedSeconds(task.key)
    case 'dieWithin':
      eventLog.enter()
      limiter.take(rows[0] as LimitRow, 'of a thread that died')
      // The answer goes out with the turn; the step is never left.
      setImmediate(() => process.exit(1))
      return undefined
  }
}

function hammer({ keys, forMs, changes = 0, least }: Hammering): Record<string, number[]> {
  // What was changed before is no change.
  eventLog.catchUp()
  const lastTable = tables + changes
  const untilMs = performance.now() + forMs
  const times: Record<string, number[]> = {}
  let asked = 0
  for (let i = begun.seat; performance.now() < untilMs || asked < least; i++) {
    eventLog.enter()
    if (tables >= lastTable) asked += 1
    // The table may have changed with this step.
    const row = rows[i % rows.length] as LimitRow
    const key = keys[i % keys.length] as string
    if (limiter.take(row, key).allowed) {
      const name = `${row.name} ${key}`
      times[name] ??= []
      times[name].push(eventLog.nowMs)
    }
    eventLog.leave()
  }
  return times
}

function state(atMs: number): unknown {
  const { records, hits } = limiter.copy()
  const counted = [...hits].filter((hit) => hit.atMs <= atMs)
  return {
    records,
    hits: counted.map(({ id, atMs: at, key, count }) => `${id} ${key} ${at} ${count}`).sort(),
  }
}
