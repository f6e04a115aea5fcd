import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { HandOver, type HandOverParts } from './hand-over.ts'
import { MEMORIES } from './messages.ts'
import { Restarts } from './restarts.ts'
import { type PassedSocket, socketOf } from './sockets.ts'

/** Longer than the other process may take for any of its steps. */
const BOUND_MS = 30_000
/** A program that hangs, and ends only when it is killed. */
const HANGS = `process.on('SIGTERM', () => {}); setInterval(() => {}, 1e6)`
const PREPARED = `process.send({ type: 'prepared', places: {} })`
const COPIES = `process.on('message', (message, handle) => {
  if (message.type === 'listener') process.send(message, handle)
})`
const MOMENTS = [
  { when: 'before it is prepared', script: HANGS, reached: 'started' },
  { when: 'before it has taken the sockets', script: `${HANGS}; ${PREPARED}`, reached: 'giving' },
  { when: 'with the files in its hands', script: `${HANGS}; ${PREPARED}; ${COPIES}`, reached: 'suspended' },
]

async function listening(t: TestContext): Promise<Server> {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  return server
}

/** A gateway that can be restarted, with what has happened to it. */
async function serving(t: TestContext, events: { reach(moment: string): void }) {
  const [publicServer, admin] = [await listening(t), await listening(t)]
  const logged: string[] = []
  const copies: PassedSocket[] = []
  t.after(() => {
    for (const copy of copies) copy.close()
  })
  const connections = {
    sockets: () => {
      events.reach('giving')
      return [['http', socketOf(publicServer)]]
    },
    suspend: async () => {},
    goOn: (own: readonly PassedSocket[]) => {
      copies.push(...own)
      logged.push('serves again')
    },
  }
  const handOver = new HandOver({
    log: { error: () => {} },
    connections,
    obstacle: () => undefined,
    files: { suspend: () => ({}), resume: () => logged.push('has the files') },
    trail: {
      suspend: async () => {
        events.reach('suspended')
        return undefined
      },
      goOn: () => logged.push('has the trail'),
    },
    tickets: { dayKey: () => undefined },
    revocations: {},
    memories: { ...Object.fromEntries(MEMORIES.map((name) => [name, {}])), guards: { deliveries: {} } },
  } as unknown as HandOverParts)
  const restarts = new Restarts({
    predecessorIsHere: () => false,
    onSuspended: () => {},
    onBack: () => {},
    settings: { audit: {} },
    log: {
      info: () => {},
      error: ({ cause }: { readonly cause: string }, what: string) => logged.push(`${what}: ${cause}`),
    },
    serving: { handOver },
    admin,
  } as never)
  return { restarts, logged, adminPort: (admin.address() as AddressInfo).port }
}

/** Runs as if this program were `script`. */
async function withProgram<T>(script: string, run: () => Promise<T>): Promise<T> {
  const { argv } = process
  process.argv = [process.execPath, '--eval', script]
  try {
    return await run()
  } finally {
    process.argv = argv
  }
}

describe('a restart whose new process hangs', () => {
  for (const { when, script, reached } of MOMENTS) {
    it(`${when} is given up and logged, and another restart can follow`, async (t) => {
      t.mock.timers.enable({ apis: ['setTimeout'] })
      // After two turns of the loop it waits for nothing but the other process.
      const reach = (moment: string) => {
        if (moment === reached) setImmediate(() => setImmediate(() => t.mock.timers.tick(BOUND_MS)))
      }
      const { restarts, logged } = await serving(t, { reach })
      await withProgram(script, async () => {
        const failed = assert.rejects(restarts.restart(), /^Error: it took longer than 30 s$/)
        reach('started')
        await failed
      })
      const back = reached === 'suspended' ? ['has the files', 'has the trail', 'serves again'] : []
      assert.deepEqual(logged.splice(0), [...back, 'not restarted: it took longer than 30 s'])
      await withProgram('process.exit(3)', () => assert.rejects(restarts.restart(), /exit code 3/))
      assert.deepEqual(logged, ['not restarted: it ended with exit code 3'])
    })
  }
})
