import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { ClusterEvent } from './event.ts'
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

/** All in one thread: what they share does not know the difference, as long as nobody has to wait. */
function seated(memory: SharedMemory, seat: number, options: Partial<EventLogOptions> = {}): EventLog {
  return new EventLog({
    memory,
    seat,
    clock: () => 1000,
    onLost: (error) => {
      throw error
    },
    patienceMs: 20,
    ...options,
  })
}

/** A small ring into which so many bytes have been written already, modulo 2³². */
function memoryAt(start: number): SharedMemory {
  const memory = createSharedMemory(4096)
  const words = new Int32Array(memory.control)
  words[WRITTEN] = start
  words[wordOf(MAIN_SEAT, READ)] = start
  return memory
}

function pair(memory = createSharedMemory(), options: Partial<EventLogOptions> = {}) {
  const main = seated(memory, MAIN_SEAT, options)
  const seat = main.seatNext() ?? -1
  return { memory, main, seat, worker: seated(memory, seat, options) }
}

function hear(eventLog: EventLog): ClusterEvent[] {
  const heard: ClusterEvent[] = []
  for (let kind = 1; kind < 256; kind++) eventLog.on(kind, (event) => heard.push(event))
  return heard
}

function act(eventLog: EventLog, event: Partial<ClusterEvent>): ClusterEvent {
  const told = { kind: 1, id: 0, atMs: 1000, text: '', ...event }
  eventLog.enter()
  eventLog.publish(told)
  eventLog.leave()
  return told
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
      // Halves of surrogate pairs, which UTF-8 cannot spell.
      fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 })).map((units) => String.fromCharCode(...units)),
    ),
    catchUp: fc.boolean(),
  }),
  { maxLength: 60 },
)

describe('the order of events', () => {
  it('gives every event to all others exactly as it was told, in one order, also round the end of the ring', () => {
    fc.assert(
      fc.property(events, fc.constantFrom(0, 2 ** 32 - 4096, 2 ** 32 - 64), (told, start) => {
        const { main, worker, memory } = pair(memoryAt(start))
        const third = seated(memory, main.seatNext() ?? -1)
        const heard = [main, worker, third].map(hear)
        const expected: ClusterEvent[][] = [[], [], []]
        for (const { by, catchUp, ...event } of told) {
          act([main, worker][by] as EventLog, event)
          for (const at of [0, 1, 2]) if (at !== by) expected[at]?.push(event)
          // Nobody may be so far behind that the ring is full.
          if (catchUp || (expected[2] as ClusterEvent[]).length % 3 === 0)
            for (const one of [main, worker, third]) one.catchUp()
        }
        for (const one of [main, worker, third]) one.catchUp()
        assert.deepEqual(heard, expected)
      }),
      { numRuns: 300 },
    )
  })

  it('does what others have done before a step of its own begins', () => {
    const { main, worker } = pair()
    const heard = hear(worker)
    act(main, { text: 'before' })
    worker.enter()
    assert.equal(heard.length, 1)
    worker.leave()
  })

  it('gives the steps times that never run back, however the clocks of the threads differ', () => {
    const memory = createSharedMemory()
    const main = seated(memory, MAIN_SEAT, { clock: () => 1000.5 })
    const behind = seated(memory, main.seatNext() ?? -1, { clock: () => 999 })
    assert.equal(behind.nowMs, 999)
    main.enter()
    assert.equal(main.nowMs, 1000.5)
    main.leave()
    behind.enter()
    assert.equal(behind.nowMs, 1000.5)
    behind.leave()
    assert.equal(behind.nowMs, 999)
  })

  it('leaves a worker behind that does not listen, which finds itself lost and does nothing more', () => {
    const lost: string[] = []
    const { main, worker } = pair(createSharedMemory(4096), { onLost: ({ message }) => lost.push(message) })
    const heard = hear(worker)
    for (let i = 0; i < 200; i++) act(main, { text: 'x'.repeat(50) })
    assert.throws(() => worker.catchUp(), /left behind/)
    assert.deepEqual(lost, ['this thread was left behind by the others'])
    assert.deepEqual(heard, [])
    assert.throws(() => worker.enter(), /left behind/)
    // It holds nothing that others wait for.
    act(main, {})
  })

  it('takes up a thread again that gets the seat of a lost one', () => {
    const { main, seat, memory } = pair(createSharedMemory(4096))
    for (let i = 0; i < 200; i++) act(main, { text: 'x'.repeat(50) })
    main.vacate(seat)
    assert.equal(main.seatNext(), seat)
    const next = seated(memory, seat)
    const heard = hear(next)
    const told = act(main, { text: 'hello' })
    next.catchUp()
    assert.deepEqual(heard, [told])
  })

  it('refuses an event that is too long to be told, and tells nothing of it', () => {
    const { main, worker } = pair(createSharedMemory(4096))
    const heard = hear(worker)
    assert.ok(main.longestText > 900)
    act(main, { text: 'é'.repeat(main.longestText) })
    worker.enter()
    assert.throws(
      () => worker.publish({ kind: 1, id: 0, atMs: 0, text: 'x'.repeat(2100) }),
      /2128 bytes is too long/,
    )
    worker.leave()
    assert.equal(heard.length, 1)
  })

  it('releases what a dead thread held', () => {
    const { main, worker, seat, memory } = pair()
    const third = seated(memory, main.seatNext() ?? -1)
    worker.enter()
    const done: string[] = []
    main.whenFree(() => done.push('main'))
    assert.equal(done.length, 0)
    main.vacate(seat)
    third.enter()
    third.leave()
  })

  it('takes nothing from the living when a thread has died that held nothing', () => {
    const { main, worker, seat } = pair()
    const other = main.seatNext() ?? -1
    worker.enter()
    main.vacate(other)
    const done: string[] = []
    main.whenFree(() => done.push('too early'))
    assert.equal(done.length, 0)
    worker.leave()
    main.vacate(seat)
  })

  it('lets the main thread take its steps in their order, as soon as the others let it', async () => {
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

  it('gives the step up when it throws', () => {
    const { main, worker } = pair()
    assert.throws(() => main.whenFree(() => assert.fail('no')), /no/)
    worker.enter()
    worker.leave()
  })

  it('counts a thread as lost that fails to do what another has done', () => {
    const lost: string[] = []
    const { main, worker } = pair(createSharedMemory(), { onLost: ({ message }) => lost.push(message) })
    worker.on(1, () => {
      throw new Error('a bug')
    })
    act(main, {})
    assert.throws(() => worker.enter(), /a bug/)
    assert.deepEqual(lost, ['a bug'])
    act(main, {})
  })

  it('has a seat for each of so many threads, and none for one more', () => {
    const main = seated(createSharedMemory(), MAIN_SEAT)
    const seats = Array.from({ length: SEATS - 1 }, () => main.seatNext())
    assert.equal(new Set(seats).size, SEATS - 1)
    assert.equal(main.seatNext(), undefined)
    main.vacate(7)
    assert.equal(main.seatNext(), 7)
  })

  it('knows which threads are alive and fit, and forgets it with the seat', () => {
    const { main, worker, seat } = pair()
    worker.beat(true)
    worker.beat(false)
    assert.equal(main.beatsOf(seat), 2)
    assert.equal(main.allFit, false)
    main.vacate(seat)
    assert.equal(main.allFit, true)
    assert.equal(main.seatNext(), seat)
    assert.equal(main.beatsOf(seat), 0)
  })

  it('knows how many exchanges and tunnels the other threads have, and forgets it with the seat', () => {
    const { main, worker, seat } = pair()
    worker.publishCount('exchanges', 2)
    worker.publishCount('tunnels', 3)
    assert.deepEqual([main.countElsewhere('exchanges'), main.countElsewhere('tunnels')], [2, 3])
    assert.deepEqual([worker.countElsewhere('exchanges'), worker.countElsewhere('tunnels')], [0, 0])
    worker.publishCount('exchanges', 1)
    assert.equal(main.countElsewhere('exchanges'), 1)
    main.vacate(seat)
    assert.deepEqual([main.countElsewhere('exchanges'), main.countElsewhere('tunnels')], [0, 0])
  })

  it('has flags that all threads see', () => {
    const { main, worker } = pair()
    const seen = worker.mark(3)
    assert.equal(seen.raised, false)
    main.mark(3).raised = true
    assert.deepEqual([seen.raised, worker.mark(2).raised], [true, false])
    seen.raised = false
    assert.equal(main.mark(3).raised, false)
  })
})
