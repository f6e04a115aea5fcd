import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { EventLog, type EventLogOptions } from './event-log.ts'
import {
  createSharedMemory,
  MAIN_SEAT,
  READ,
  SEATS,
  type SharedMemory,
  WRITTEN,
  wordOf,
} from './event-memory.ts'
import type { ClusterEvent } from './event-ring.ts'

/** Several "threads" in one: shared memory works the same as long as nobody waits. */
function seated(memory: SharedMemory, seat: number, options: Partial<EventLogOptions> = {}): EventLog {
  return new EventLog({
    memory,
    seat,
    clock: () => 1000,
    onLost: (error) => {
      throw error
    },
    maxWaitMs: 20,
    ...options,
  })
}

/** A small ring after `start` bytes, modulo 2³². */
function memoryAt(start: number): SharedMemory {
  const memory = createSharedMemory(4096)
  const words = new Int32Array(memory.control)
  words[WRITTEN] = start
  words[wordOf(MAIN_SEAT, READ)] = start
  return memory
}

function pair(memory = createSharedMemory(), options: Partial<EventLogOptions> = {}) {
  const main = seated(memory, MAIN_SEAT, options)
  const seat = main.takeSeat() ?? -1
  return { memory, main, seat, worker: seated(memory, seat, options) }
}

function receive(eventLog: EventLog): ClusterEvent[] {
  const received: ClusterEvent[] = []
  for (let kind = 1; kind < 256; kind++) eventLog.on(kind, (event) => received.push(event))
  return received
}

function publish(eventLog: EventLog, event: Partial<ClusterEvent>): ClusterEvent {
  const published = { kind: 1, id: 0, atMs: 1000, text: '', ...event }
  eventLog.enter()
  eventLog.publish(published)
  eventLog.leave()
  return published
}

const events = fc.array(
  fc.record({
    by: fc.nat(1),
    kind: fc.integer({ min: 1, max: 255 }),
    id: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    atMs: fc.double({ noNaN: true, noDefaultInfinity: true }),
    text: fc.oneof(
      fc.string({ maxLength: 300 }),
      fc.string({ unit: 'binary', maxLength: 200 }),
      // Lone surrogates, which UTF-8 cannot encode.
      fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 })).map((units) => String.fromCharCode(...units)),
    ),
    catchUp: fc.boolean(),
  }),
  { maxLength: 60 },
)

describe('the event log', () => {
  it('delivers every event unchanged to all other threads in one order, also when the ring wraps', () => {
    fc.assert(
      fc.property(events, fc.constantFrom(0, 2 ** 32 - 4096, 2 ** 32 - 64), (published, start) => {
        const { main, worker, memory } = pair(memoryAt(start))
        const third = seated(memory, main.takeSeat() ?? -1)
        const received = [main, worker, third].map(receive)
        const expected: ClusterEvent[][] = [[], [], []]
        for (const { by, catchUp, ...event } of published) {
          publish([main, worker][by] as EventLog, event)
          for (const at of [0, 1, 2]) if (at !== by) expected[at]?.push(event)
          // So often that the ring is never full.
          if (catchUp || (expected[2] as ClusterEvent[]).length % 3 === 0)
            for (const one of [main, worker, third]) one.catchUp()
        }
        for (const one of [main, worker, third]) one.catchUp()
        assert.deepEqual(received, expected)
      }),
      { numRuns: 300 },
    )
  })

  it('applies the events of others before a step begins', () => {
    const { main, worker } = pair()
    const received = receive(worker)
    publish(main, { text: 'before' })
    worker.enter()
    assert.equal(received.length, 1)
    worker.leave()
  })

  it('gives steps times that never run backwards, however the clocks of the threads differ', () => {
    const memory = createSharedMemory()
    const main = seated(memory, MAIN_SEAT, { clock: () => 1000.5 })
    const behind = seated(memory, main.takeSeat() ?? -1, { clock: () => 999 })
    assert.equal(behind.nowMs, 999)
    main.enter()
    assert.equal(main.nowMs, 1000.5)
    main.leave()
    behind.enter()
    assert.equal(behind.nowMs, 1000.5)
    behind.leave()
    assert.equal(behind.nowMs, 999)
  })

  it('marks a worker that does not read as lost, and that worker does nothing more', () => {
    const lost: string[] = []
    const { main, worker } = pair(createSharedMemory(4096), { onLost: ({ message }) => lost.push(message) })
    const received = receive(worker)
    for (let i = 0; i < 200; i++) publish(main, { text: 'x'.repeat(50) })
    assert.throws(() => worker.catchUp(), /not read for too long/)
    assert.deepEqual(lost, ['this thread has not read for too long'])
    assert.deepEqual(received, [])
    assert.throws(() => worker.enter(), /not read for too long/)
    // The lock is free.
    publish(main, {})
  })

  it('lets a new thread use the seat of a lost one', () => {
    const { main, seat, memory } = pair(createSharedMemory(4096))
    for (let i = 0; i < 200; i++) publish(main, { text: 'x'.repeat(50) })
    main.freeSeat(seat)
    assert.equal(main.takeSeat(), seat)
    const next = seated(memory, seat)
    const received = receive(next)
    const published = publish(main, { text: 'hello' })
    next.catchUp()
    assert.deepEqual(received, [published])
  })

  it('rejects an event that is too long, and publishes nothing of it', () => {
    const { main, worker } = pair(createSharedMemory(4096))
    const received = receive(worker)
    assert.ok(main.longestText > 900)
    publish(main, { text: 'é'.repeat(main.longestText) })
    worker.enter()
    assert.throws(
      () => worker.publish({ kind: 1, id: 0, atMs: 0, text: 'x'.repeat(2100) }),
      /2128 bytes is too long/,
    )
    worker.leave()
    assert.equal(received.length, 1)
  })

  it('takes the longest text at every position of the ring, whatever it has to skip', () => {
    for (let before = 0; before < 4096; before += 64) {
      const { main, worker } = pair(memoryAt(before))
      const received = receive(worker)
      for (const letter of ['x', 'é']) {
        publish(main, { text: letter.repeat(main.longestText) })
        worker.catchUp()
      }
      assert.deepEqual(
        received.map(({ text }) => text.length),
        [main.longestText, main.longestText],
      )
    }
  })

  it('releases the lock of a dead thread', () => {
    const { main, worker, seat, memory } = pair()
    const third = seated(memory, main.takeSeat() ?? -1)
    worker.enter()
    const done: string[] = []
    main.whenFree(() => done.push('main'))
    assert.equal(done.length, 0)
    main.freeSeat(seat)
    third.enter()
    third.leave()
  })

  it('leaves the lock of a living thread alone when another dies', () => {
    const { main, worker, seat } = pair()
    const other = main.takeSeat() ?? -1
    worker.enter()
    main.freeSeat(other)
    const done: string[] = []
    main.whenFree(() => done.push('too early'))
    assert.equal(done.length, 0)
    worker.leave()
    main.freeSeat(seat)
  })

  it('runs the steps of the main thread in order, as soon as the lock is free', async () => {
    const { main, worker } = pair()
    const done: number[] = []
    main.whenFree(() => done.push(1))
    assert.deepEqual(done, [1])
    worker.enter()
    main.whenFree(() => done.push(2))
    worker.leave()
    const last = Promise.withResolvers<void>()
    main.whenFree(() => last.resolve(void done.push(3)))
    await last.promise
    assert.deepEqual(done, [1, 2, 3])
  })

  it('releases the lock when a step throws', () => {
    const { main, worker } = pair()
    assert.throws(() => main.whenFree(() => assert.fail('no')), /no/)
    worker.enter()
    worker.leave()
  })

  it('treats a thread that fails to apply an event as lost', () => {
    const lost: string[] = []
    const { main, worker } = pair(createSharedMemory(), { onLost: ({ message }) => lost.push(message) })
    worker.on(1, () => {
      throw new Error('a bug')
    })
    publish(main, {})
    assert.throws(() => worker.enter(), /a bug/)
    assert.deepEqual(lost, ['a bug'])
    publish(main, {})
  })

  it('has a fixed number of seats', () => {
    const main = seated(createSharedMemory(), MAIN_SEAT)
    const seats = Array.from({ length: SEATS - 1 }, () => main.takeSeat())
    assert.equal(new Set(seats).size, SEATS - 1)
    assert.equal(main.takeSeat(), undefined)
    main.freeSeat(7)
    assert.equal(main.takeSeat(), 7)
  })

  it('counts heartbeats and unhealthy threads until the seat is freed', () => {
    const { main, worker, seat } = pair()
    worker.heartbeat(true)
    worker.heartbeat(false)
    assert.equal(main.heartbeatsOf(seat), 2)
    assert.equal(main.allHealthy, false)
    main.freeSeat(seat)
    assert.equal(main.allHealthy, true)
    assert.equal(main.takeSeat(), seat)
    assert.equal(main.heartbeatsOf(seat), 0)
  })

  it('sums the exchanges and tunnels of the other threads until their seats are freed', () => {
    const { main, worker, seat } = pair()
    worker.publishCount('exchanges', 2)
    worker.publishCount('tunnels', 3)
    assert.deepEqual([main.countOnOthers('exchanges'), main.countOnOthers('tunnels')], [2, 3])
    assert.deepEqual([worker.countOnOthers('exchanges'), worker.countOnOthers('tunnels')], [0, 0])
    worker.publishCount('exchanges', 1)
    assert.equal(main.countOnOthers('exchanges'), 1)
    main.freeSeat(seat)
    assert.deepEqual([main.countOnOthers('exchanges'), main.countOnOthers('tunnels')], [0, 0])
  })

  it('has flags that all threads share', () => {
    const { main, worker } = pair()
    const seen = worker.flag(3)
    assert.equal(seen.raised, false)
    main.flag(3).raised = true
    assert.deepEqual([seen.raised, worker.flag(2).raised], [true, false])
    seen.raised = false
    assert.equal(main.flag(3).raised, false)
  })
})
