import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import { openTrail } from '../../audit/open-trail.ts'
import { Deliveries } from '../../auth/deliveries.ts'
import { ReplayMemory } from '../../auth/replay.ts'
import { Revocations } from '../../auth/revocations.ts'
import type { LimitRow } from '../../limits/table/limit-table.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { randomDayKey, TicketKeys } from '../../tls/listener/ticket-keys.ts'
import { makeGatewayState, restoreState, takeState, whyNotHandedOver } from '../gateway-state.ts'
import { readConfiguration } from '../startup/read-configuration.ts'
import type { StoreWatch } from '../store-watch.ts'
import { HandOver } from './hand-over.ts'
import type { PassedState } from './messages.ts'
import { Predecessor } from './predecessor.ts'
import type { Successor } from './successor.ts'

const memory = () => new ReplayMemory({ lifetimeMs: 60_000, clock: Date.now })

/** A process that can be handed over, with sessions that can end in it. */
function handedOver(t: TestContext, log = pino({ level: 'silent' }), clock = Date.now) {
  const dataDir = temporaryDirectory(t)
  const revocations = new Revocations({ dataDir, clock, onFault: assert.fail })
  const memories = {
    ...{ acceptedWebhooks: memory(), acceptedSignatures: memory(), proofs: memory() },
    guards: { deliveries: new Deliveries(memory()) },
  }
  const trail = openTrail({ file: join(dataDir, 'audit.ndjson'), onFault: assert.fail, onRecord: () => {} })
  t.after(() => trail.close('end'))
  const handOver = new HandOver({
    log,
    trail,
    connections: {
      sockets: () => [],
      suspend: async () => {},
      goOn: () => {},
      leave: async () => {},
    },
    files: {
      suspend: () => ({ proofs: [], failures: [], blocked: [], keys: [] }),
      resume: () => {},
    },
    tickets: new TicketKeys(randomDayKey(Date.now())),
    revocations,
    clock,
    memories,
    keys: { table: undefined },
    obstacle: () => undefined,
    unwatch: () => {},
    close: () => revocations.revoke('last'),
  })
  return { dataDir, revocations, memories, handOver }
}

/** The process that takes over, with what it was told. `sent` ends the wait for its last message. */
function successor() {
  const told: string[] = []
  const sent = Promise.withResolvers<void>()
  const fake: Partial<Successor> = {
    record: () => ({ whenDone: () => {} }) as never,
    tell: (message) => {
      if (message.type === 'revoked') told.push(message.sid)
      if (message.type === 'accepted') told.push(message.memory)
      if (message.type === 'delivered') told.push(...message.delivery.keys, `taken: ${message.isTaken}`)
      return sent.promise
    },
    hurry: new Promise(() => {}),
  }
  return { told, sent, successor: fake as Successor }
}

/** Hands over to a process that hears each message at once. */
async function leave(handOver: HandOver) {
  const other = successor()
  other.sent.resolve()
  await handOver.leave(other.successor, new Promise(() => {}))
  return other
}

test('a session that ends while the files change hands is told to the process that takes over', async (t) => {
  const { handOver, revocations } = handedOver(t)
  await handOver.suspend()
  revocations.revoke('between')
  const other = await leave(handOver)
  assert.deepEqual(other.told, ['between', 'last'])
})

test('a message that is accepted after the files changed hands is told to the process that takes over', async (t) => {
  const { handOver, memories } = handedOver(t)
  const delivery = { keys: ['webhook'], sender: 'acme' }
  assert.equal(memories.guards.deliveries.begin(delivery), undefined)
  await handOver.suspend()
  assert.equal(memories.acceptedWebhooks.take('between', 'acme'), undefined)
  const other = successor()
  other.sent.resolve()
  const left = handOver.leave(other.successor, new Promise(() => {}))
  memories.guards.deliveries.end(delivery, true)
  await left
  assert.deepEqual(other.told, ['acceptedWebhooks', 'webhook', 'taken: true', 'last'])
})

test('a process that leaves waits until the last ended session is on its way', async (t) => {
  const { handOver } = handedOver(t)
  await handOver.suspend()
  const other = successor()
  let hasLeft = false
  const left = handOver.leave(other.successor, new Promise(() => {})).then(() => {
    hasLeft = true
  })
  await turn()
  assert.deepEqual([other.told, hasLeft], [['last'], false])
  other.sent.resolve()
  await left
})

test('a process that is replaced by a hanging one says that it waits, and a stop ends it', async (t) => {
  const lines: string[] = []
  const { handOver } = handedOver(t, pino({}, { write: (line) => void lines.push(line) }))
  await handOver.suspend()
  const stop = Promise.withResolvers<void>()
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let hasLeft = false
  const left = handOver.leave(successor().successor, stop.promise).then(() => {
    hasLeft = true
  })
  await turn()
  assert.deepEqual(lines, [])
  t.mock.timers.tick(60_000)
  await turn()
  assert.equal(lines.length, 1)
  assert.match(
    lines[0] ?? '',
    /"level":50.*this process waits until the new one has heard which sessions have ended/,
  )
  assert.equal(hasLeft, false, 'an ended session must not be lost')
  stop.resolve()
  for (let turns = 0; turns < 10 && !hasLeft; turns++) {
    await turn()
    t.mock.timers.tick(60_000)
  }
  assert.equal(hasLeft, true)
  await left
  assert.match(lines[1] ?? '', /"level":50.*may not have heard which sessions have ended/)
})

test('a session that ended during a failed hand-over is not told at the next', async (t) => {
  const { handOver, revocations, memories } = handedOver(t)
  await handOver.suspend()
  revocations.revoke('between')
  handOver.goOn([])
  const { guards, ...rest } = memories
  for (const one of [revocations, guards.deliveries, ...Object.values(rest)])
    assert.equal(one.otherProcess, undefined)
  await handOver.suspend()
  const other = await leave(handOver)
  assert.deepEqual(other.told, ['last'])
})

test('a process that leaves learns of sessions that end in the new process, which writes them', async (t) => {
  const { dataDir, handOver, revocations } = handedOver(t)
  await handOver.suspend()
  const { successor: other } = await leave(handOver)
  other.onRevoked('there')
  assert.equal(revocations.isRevoked('there'), true)
  assert.doesNotMatch(readFileSync(join(dataDir, 'revocations.ndjson'), 'utf8'), /"there"/)
})

const HOUR_MS = 3_600_000

test('a process that leaves learns of ended sessions by its own clock, a day ahead of the wall clock', async (t) => {
  const { handOver, revocations } = handedOver(t, undefined, () => Date.now() + 24 * HOUR_MS)
  await handOver.suspend()
  const { successor: other } = await leave(handOver)
  const apply = t.mock.method(revocations, 'apply')
  other.onRevoked('there')
  assert.ok((apply.mock.calls[0]?.arguments[1] ?? 0) > Date.now() + 23 * HOUR_MS)
})

test('a process that takes over refuses accepted messages by its own clock, an hour ahead of the wall clock', (t) => {
  const clock = () => Date.now() + HOUR_MS
  const proofs = new ReplayMemory({ lifetimeMs: 60_000, clock })
  const connected = Object.getOwnPropertyDescriptor(process, 'connected')
  Object.defineProperty(process, 'connected', { value: true, configurable: true })
  const on = t.mock.method(process, 'on', () => process)
  const predecessor = new Predecessor()
  on.mock.restore()
  t.after(() => {
    if (connected === undefined) Reflect.deleteProperty(process, 'connected')
    else Object.defineProperty(process, 'connected', connected)
  })
  const followed = { revocations: {}, memories: { proofs }, clock }
  predecessor.serve(followed as unknown as Parameters<Predecessor['serve']>[0])
  const receive = on.mock.calls.find(({ arguments: [event] }) => event === 'message')?.arguments[1]
  const other = new ReplayMemory({ lifetimeMs: 60_000, clock })
  let digest = ''
  other.otherProcess = (one) => {
    digest = one
  }
  assert.equal(other.take('proof', 'app'), undefined)
  receive?.({ type: 'accepted', memory: 'proofs', digest })
  assert.equal(proofs.take('proof', 'app'), 'replayed')
})

/** Makes a gateway's state in a directory of its own. */
function stateMaker(t: TestContext) {
  const dataDir = temporaryDirectory(t)
  const limitsFile = join(dataDir, 'limits.json')
  const row = { path: '/pay', limit: 2, window: '1h', purpose: 'Payments.' }
  writeFileSync(limitsFile, JSON.stringify({ limits: [row] }))
  const { value } = readConfiguration({ GATEWAY_DATA_DIR: dataDir, GATEWAY_LIMITS: limitsFile })
  assert.ok(value)
  const startup = { ...value, log: pino({ level: 'silent' }), storeModule: undefined }
  const watch = { fault: () => {}, removed: assert.fail } as Partial<StoreWatch> as StoreWatch
  const begin = (passed?: PassedState) => {
    const state = makeGatewayState(startup, { watch, gatewayId: 'one', clockAheadMs: passed?.clockAheadMs })
    state.limiter.replace(value.limits.value.rows)
    if (passed !== undefined) restoreState(passed, state)
    t.after(() => state.limiter.close())
    return state
  }
  return { dataDir, begin }
}

for (const setHours of [2, -2])
  test(`a restart changes no age by the ${setHours} hours that the wall clock was set meanwhile`, (t) => {
    const { begin } = stateMaker(t)
    const take = ({ limiter }: ReturnType<typeof begin>) =>
      limiter.take(limiter.find('/pay', 'POST') as LimitRow, 'a:192.0.2.1')
    const before = begin()
    assert.equal(take(before).remaining, 1)
    assert.equal(before.proofs.take('proof', 'app'), undefined)
    before.throttle.block([['a:192.0.2.2', before.clock() + 60_000]])
    const { now } = Date
    t.mock.method(Date, 'now', () => now() + setHours * HOUR_MS)
    before.limiter.close()
    const after = begin(takeState(before, []))
    const hit = take(after)
    assert.deepEqual([hit.allowed, hit.remaining], [true, 0])
    assert.ok(hit.resetSeconds <= HOUR_MS / 1000 && take(after).allowed === false)
    assert.equal(after.proofs.take('proof', 'app'), 'replayed')
    const blockedSeconds = after.throttle.blockedSeconds('a:192.0.2.2') ?? 0
    assert.ok(blockedSeconds > 0 && blockedSeconds <= 60, `${blockedSeconds}`)
  })

test('a gateway is not handed over while webhooks that were taken are not in their file', (t) => {
  const { dataDir, begin } = stateMaker(t)
  const state = begin()
  const trail = { recheck: () => true }
  const delivery = { keys: ['webhook'], sender: 'acme' }
  assert.equal(state.guards.deliveries.begin(delivery), undefined)
  assert.equal(whyNotHandedOver(trail, state), undefined)
  rmSync(join(dataDir, 'deliveries.ndjson'), { force: true })
  mkdirSync(join(dataDir, 'deliveries.ndjson'))
  state.guards.deliveries.end(delivery, true)
  assert.equal(whyNotHandedOver(trail, state), 'accepted webhooks cannot be written')
})

test('a process that has been replaced leaves the files of the next where they are, even when new ones are due', (t) => {
  const { dataDir } = stateMaker(t)
  let nowMs = Date.now()
  const removed: string[] = []
  const begin = () =>
    new Revocations({
      ...{ dataDir, clock: () => nowMs, lifetimeMs: 60_000 },
      onFault: assert.fail,
      onRemoved: (cause) => removed.push(cause),
    })
  const before = begin()
  before.revoke('early')
  before.maintain()
  nowMs += 60_000
  const next = begin()
  next.maintain()
  before.revoke('late')
  next.maintain()
  assert.deepEqual(removed, [])
})
