import { parentPort, workerData } from 'node:worker_threads'
import { pino } from 'pino'
import { LockedLimiter } from '../limits/locked-limiter.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'
import type { StartupConfiguration } from '../process/startup-configuration.ts'
import type { StoreWatch } from '../process/store-watch.ts'
import { commonClock } from './event-clock.ts'
import { EventLog } from './event-log.ts'
import { joinState } from './replication.ts'
import type { WorkerConfiguration } from './worker-messages.ts'

/** What a test asks of a thread that shares state like a worker, without a listener. */
export type Task =
  /** Takes as fast as it can. Returns the times at which it was admitted, by row and key. */
  | ({ readonly task: 'hammer' } & Hammering)
  /** Returns all hits up to that time. */
  | { readonly task: 'state'; readonly atMs: number }
  /** Returns the messages that were accepted. */
  | {
      readonly task: 'replay'
      readonly memory: 'proofs' | 'acceptedWebhooks'
      readonly messages: readonly string[]
    }
  | { readonly task: 'revoke'; readonly sid: string }
  | { readonly task: 'isRevoked'; readonly sid: string }
  | { readonly task: 'guess'; readonly key: string; readonly times: number }
  | { readonly task: 'blocked'; readonly key: string }
  /** Dies within a step, after its reply. */
  | { readonly task: 'dieWithin' }

/** Runs until all of these are reached, however slow the machine is. */
export interface Hammering {
  readonly keys: readonly string[]
  /** Milliseconds. */
  readonly forMs: number
  /** Changes of the table since the start; default: 0. */
  readonly changes?: number
  /** Takes since then. */
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
const { limiter, proofs, acceptedWebhooks, revocations, throttle } = joinState(begun, {
  startup,
  watch: { fault() {}, removed() {}, observe() {}, repeat() {} } as Partial<StoreWatch> as StoreWatch,
  eventLog,
  gatewayId: 'gateway',
  threadId: 1,
})
const replace = limiter.replace.bind(limiter)
limiter.replace = (changed, atMs) => {
  replace(changed, atMs)
  rows = changed
  tables += 1
}
let takenAtMs = 0
const lockedLimiter = new LockedLimiter(limiter, {
  enter: () => eventLog.enter(),
  leave: () => {
    takenAtMs = eventLog.nowMs
    eventLog.leave()
  },
})
const memories = { proofs, acceptedWebhooks }
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
      return task.messages.filter((message) => memories[task.memory].take(message, 'sender') === undefined)
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
      // The reply is sent at the end of the turn; the step is never left.
      setImmediate(() => process.exit(1))
      return undefined
  }
}

function hammer({ keys, forMs, changes = 0, least }: Hammering): Record<string, number[]> {
  // Earlier changes do not count.
  eventLog.catchUp()
  const lastTable = tables + changes
  const untilMs = performance.now() + forMs
  const times: Record<string, number[]> = {}
  let asked = 0
  for (let i = begun.seat; performance.now() < untilMs || asked < least; i++) {
    const row = rows[i % rows.length] as LimitRow
    const key = keys[i % keys.length] as string
    if (lockedLimiter.take(row, key).allowed) {
      const name = `${row.name} ${key}`
      times[name] ??= []
      times[name].push(takenAtMs)
    }
    // Of this take, too: it may have changed the table first.
    if (tables >= lastTable) asked += 1
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
