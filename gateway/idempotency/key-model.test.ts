import assert from 'node:assert/strict'
import { cpSync, writeSync } from 'node:fs'
import { it, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { LONGER } from '../e2e/long-runs.ts'
import type { Write } from '../storage/append-log.ts'
import { type KeySecrets, secretsOf } from './key-secret.ts'
import { openTable, RESPONSE, request, temporaryDirectory } from './key-table.test-support.ts'
import type { HeldKey, KeyTable } from './key-table.ts'

const realWrite = writeSync as Write
const KEYS = ['a', 'b', 'c', 'd', 'e', 'f']
const KEEP_MS = 60_000
const KEYED = { keepMs: KEEP_MS }

type Command =
  | { readonly does: 'send' | 'answer' | 'free' | 'lose'; readonly key: string }
  | { readonly does: 'maintain' | 'turn' | 'kill' | 'hand over' | 'fill' | 'empty' | 'break sync' | 'rekey' }
  | { readonly does: 'wait'; readonly ms: number }

/** What the gateway must know of a key. `until`: when it may forget the key. */
interface Known {
  readonly state: 'free' | 'in progress' | 'done' | 'unknown'
  readonly body?: string
  readonly until: number
}

const key = fc.constantFrom(...KEYS)
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ does: fc.constant('send' as const), key }) },
  { weight: 4, arbitrary: fc.record({ does: fc.constant('answer' as const), key }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constantFrom('free' as const, 'lose' as const), key }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constantFrom('maintain' as const, 'turn' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constantFrom('kill' as const, 'hand over' as const, 'rekey' as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ does: fc.constantFrom('fill' as const, 'empty' as const, 'break sync' as const) }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('wait' as const), ms: fc.nat(40_000) }) },
)

/** A gateway with its keys, whose disk can be full, and which can be killed. */
class Model {
  readonly #t: TestContext
  readonly #syncs: boolean
  readonly #time = { nowMs: 1_900_000_000_000 }
  readonly #disk = { isFull: false, wasFull: false, breaksNext: false }
  readonly #known = new Map<string, Known>(KEYS.map((key) => [key, { state: 'free', until: 0 }]))
  /** Keys whose beginning is in the file, but could not be synced. */
  readonly #doubted = new Set<string>()
  readonly #held = new Map<string, HeldKey>()
  /** Keys whose beginning waits for the disk. */
  readonly #begins = new Set<string>()
  #directory: string
  #lines = ['secret 0'.padEnd(32, '.')]
  #secrets: KeySecrets = secretsOf(this.#lines)
  #table: KeyTable
  #sent = 0
  #rekeyed = 0

  constructor(t: TestContext, syncs: boolean) {
    this.#t = t
    this.#syncs = syncs
    this.#directory = temporaryDirectory(t)
    this.#table = this.#open()
  }

  #open(): KeyTable {
    const disk = this.#disk
    const { table } = openTable(
      this.#directory,
      {
        secrets: this.#secrets,
        syncs: this.#syncs,
        segmentBytes: 1500,
        write: (fd, bytes) => {
          if (disk.isFull) throw new Error('ENOSPC')
          return realWrite(fd, bytes)
        },
        sync: ((_fd: number, done: (error: Error | null) => void) => {
          const error = disk.breaksNext ? new Error('EIO') : null
          disk.breaksNext = false
          setImmediate(done, error)
        }) as never,
      },
      this.#time,
    )
    return table
  }

  async run(one: Command): Promise<void> {
    if (one.does === 'send') this.#send(one.key)
    else if (one.does === 'answer' || one.does === 'free' || one.does === 'lose')
      this.#finish(one.key, one.does)
    else if (one.does === 'maintain') this.#table.maintain()
    else if (one.does === 'turn') await turn()
    else if (one.does === 'kill') this.#kill()
    else if (one.does === 'hand over') await this.#handOver()
    else if (one.does === 'wait') this.#time.nowMs += one.ms
    else if (one.does === 'rekey') this.#rekey()
    else if (one.does === 'break sync') this.#disk.breaksNext = this.#syncs
    else {
      this.#disk.isFull = one.does === 'fill'
      this.#disk.wasFull ||= this.#disk.isFull
    }
  }

  /** Adds a secret, and takes the oldest away when the table says that nothing needs it. */
  #rekey(): void {
    this.#lines.unshift(`secret ${++this.#rekeyed}`.padEnd(32, '.'))
    this.#secrets = secretsOf(this.#lines)
    this.#table.rekey(this.#secrets)
    // A file may need a secret for a free key, when `free` could not be written.
    if (this.#disk.wasFull || this.#syncs) return
    try {
      this.#table.rekey(secretsOf(this.#lines.slice(0, -1)))
    } catch {
      return
    }
    this.#lines.pop()
    this.#secrets = secretsOf(this.#lines)
  }

  #send(key: string): void {
    const before = this.#known.get(key) ?? { state: 'free', until: 0 }
    if (this.#begins.has(key)) return
    this.#begins.add(key)
    const requestId = String(++this.#sent)
    const table = this.#table
    table.begin(request(key, { ...KEYED, requestId }), (begun) => {
      // The gateway was killed meanwhile.
      if (table !== this.#table) return
      this.#begins.delete(key)
      const isOver = this.#time.nowMs >= before.until
      if (begun.outcome === 'begun') {
        assert.ok(
          before.state === 'free' || (isOver && before.state !== 'in progress'),
          `${key} is sent again: it was ${before.state}`,
        )
        this.#held.set(key, begun.held)
        this.#doubted.delete(key)
        this.#known.set(key, { state: 'in progress', until: Number.POSITIVE_INFINITY })
      } else if (begun.outcome === 'done') {
        assert.equal(before.state, 'done')
        const body = begun.response.body
        if (body !== undefined || !this.#disk.wasFull) assert.equal(body, before.body)
      } else if (begun.outcome === 'in_progress')
        assert.ok(before.state === 'in progress' || this.#unfinished.has(key))
      else if (begun.outcome === 'unknown') assert.equal(before.state, 'unknown')
      else {
        assert.equal(begun.outcome, 'unavailable')
        if (isOver) this.#doubted.add(key)
      }
    })
  }

  #finish(key: string, how: 'answer' | 'free' | 'lose'): void {
    const held = this.#held.get(key)
    if (held === undefined) return
    this.#held.delete(key)
    const until = this.#time.nowMs + KEEP_MS
    if (how === 'free') {
      this.#known.set(key, { state: 'free', until: 0 })
      this.#table.finish(held, 'free', () => {})
    } else if (how === 'lose') {
      this.#known.set(key, { state: 'unknown', until })
      this.#table.finish(held, 'unknown', () => {})
    } else {
      this.#answer(held, key, this.#table)
    }
  }

  /** @param table of the process that has the request */
  #answer(held: HeldKey, key: string, table: KeyTable): void {
    const [body, until] = [`response ${held.requestId}`, this.#time.nowMs + KEEP_MS]
    this.#known.set(key, { state: 'done', body, until })
    // Until the response is durable, the client has not got it, and a crash makes the key unknown.
    this.#unfinished.add(key)
    const serving = this.#table
    table.finish(held, { ...RESPONSE, body }, (error) => {
      if (serving !== this.#table) return
      if (error === undefined) this.#unfinished.delete(key)
      else this.#known.set(key, { state: 'unknown', body, until })
    })
  }

  readonly #unfinished = new Set<string>()

  #kill(): void {
    const next = temporaryDirectory(this.#t)
    cpSync(this.#directory, next, { recursive: true })
    const dead = this.#table
    this.#directory = next
    this.#disk.isFull = false
    this.#recall()
    for (const [key, { state }] of this.#known)
      if (state === 'in progress')
        this.#known.set(key, { state: 'unknown', until: this.#time.nowMs + KEEP_MS })
    this.#table = this.#open()
    dead.close()
    this.#held.clear()
    this.#begins.clear()
    this.#unfinished.clear()
  }

  /** Learns from a copy of the files what the next process knows of keys whose last record may not be in them. */
  #recall(): void {
    const copy = temporaryDirectory(this.#t)
    cpSync(this.#directory, copy, { recursive: true })
    const look = openTable(copy, { secrets: this.#secrets }, this.#time)
    for (const [key, known] of this.#known) {
      const found = look.outcome(key, KEYED)
      const isOpen =
        known.state === 'free' || this.#unfinished.has(key) || this.#begins.has(key) || this.#doubted.has(key)
      if (known.state === 'in progress' || !isOpen) continue
      if (found === 'unknown') this.#known.set(key, { state: 'unknown', until: 0 })
      else if (found === 'done') this.#known.set(key, { ...known, state: 'done' })
    }
    look.table.close()
  }

  async #handOver(): Promise<void> {
    // A gateway waits until all requests under way are decided.
    while (this.#begins.size > 0) await turn()
    if (!this.#table.isWritable) return
    const old = this.#table
    const begun = old.suspend()
    this.#recall()
    const next = this.#open()
    this.#table = next
    next.inherit(begun)
    old.leaveTo((finished, run) => next.apply(finished, run))
    // The old process has only requests in progress, and all of them end now.
    for (const [key, held] of this.#held) this.#answer(held, key, old)
    this.#held.clear()
    next.release()
    old.close()
  }

  close(): void {
    this.#table.close()
  }
}

for (const syncs of [false, true])
  it(`keys survive any order of requests, kills, hand-overs and full disks, ${syncs ? 'synced' : 'written'}`, async (t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 150, size: 'max' }), async (commands) => {
        const model = new Model(t, syncs)
        for (const one of commands) await model.run(one)
        model.close()
      }),
      { numRuns: LONGER === 1 ? 20 : 40 * LONGER },
    )
  })
