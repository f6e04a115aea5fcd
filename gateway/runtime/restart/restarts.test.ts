import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { describe, it, type TestContext, test } from 'node:test'
import { HandOver, type HandOverParts } from './hand-over.ts'
import { MEMORIES } from './messages.ts'
import { CannotRestart, Restarts } from './restarts.ts'
import { type PassedSocket, socketOf } from './sockets.ts'

const parts = { predecessorIsHere: () => false, onSuspended: assert.fail, onBack: assert.fail }

test('a gateway that does not serve yet is not restarted, and says so', async () => {
  const restarts = new Restarts({ ...parts, serving: {} } as never)
  await assert.rejects(restarts.restart(), (error) => {
    assert.ok(error instanceof CannotRestart)
    assert.match(error.message, /has not started yet/)
    return true
  })
})

test('a process whose predecessor has requests, and one that is being stopped, is not restarted', async () => {
  const early = new Restarts({ ...parts, serving: {}, predecessorIsHere: () => true } as never)
  await assert.rejects(early.restart(), /try again later/)
  const stopping = new Restarts({ ...parts, serving: {} } as never)
  assert.equal(await stopping.stop(), undefined)
  await assert.rejects(stopping.restart(), /is being stopped/)
})

/** Gives back copies of the first sockets that it gets, and ends at the next one. */
const successor = (copies: number) => `
  let left = ${copies}
  process.send({ type: 'prepared', places: {} })
  process.on('message', (message, handle) => {
    if (message.type === 'listener' && left-- === 0) process.exit(1)
    if (message.type === 'listener') process.send(message, handle)
  })`

async function listening(t: TestContext): Promise<Server> {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  return server
}

/** A gateway that can be restarted, with what it has logged. */
function restartable(admin: Server, parts: object) {
  const logged: string[] = []
  const handOver = new HandOver({
    log: { error: () => {} },
    obstacle: () => undefined,
    revocations: {},
    memories: { ...Object.fromEntries(MEMORIES.map((name) => [name, {}])), guards: { deliveries: {} } },
    ...parts,
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
  return { restarts, logged }
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

/** True when somebody listens, although nobody may ever accept. */
async function takesConnections(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  const takes = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
  })
  socket.destroy()
  return takes
}

describe('a restart that fails leaves no copy of a listening socket behind', () => {
  const failures = [
    { when: 'when the other process ends before it has all sockets', copies: 1, why: /exit code 1/ },
    { when: 'when requests cannot be held up', copies: 2, why: /cannot be held up/ },
  ]
  for (const { when, copies, why } of failures) {
    it(when, async (t) => {
      const [publicServer, admin] = [await listening(t), await listening(t)]
      const ports = [publicServer, admin].map((server) => (server.address() as AddressInfo).port)
      const { restarts } = restartable(admin, {
        connections: {
          sockets: () => [['http', socketOf(publicServer)]],
          suspend: () => Promise.reject(new Error('cannot be held up')),
          // Closes only the copy of the public listener, as if the gateway listened no more.
          goOn: ([own]: readonly PassedSocket[]) => own?.close(),
        },
        trail: { goOn: () => {} },
      })
      await withProgram(successor(copies), () => assert.rejects(restarts.restart(), why))
      for (const port of ports) assert.equal(await takesConnections(port), true)
      for (const server of [publicServer, admin]) await new Promise((resolve) => server.close(resolve))
      for (const port of ports) assert.equal(await takesConnections(port), false)
    })
  }
})

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
  {
    when: 'after the files were suspended',
    script: `${HANGS}; ${PREPARED}; ${COPIES}`,
    reached: 'suspended',
  },
]

describe('a restart whose new process hangs', () => {
  for (const { when, script, reached } of MOMENTS) {
    it(`${when} is given up and logged, and another restart can follow`, async (t) => {
      t.mock.timers.enable({ apis: ['setTimeout'] })
      // After two turns of the event loop the restart waits only for the other process.
      const reach = (moment: string) => {
        if (moment === reached) setImmediate(() => setImmediate(() => t.mock.timers.tick(BOUND_MS)))
      }
      const [publicServer, admin] = [await listening(t), await listening(t)]
      const copies: PassedSocket[] = []
      t.after(() => {
        for (const copy of copies) copy.close()
      })
      const { restarts, logged } = restartable(admin, {
        connections: {
          sockets: () => {
            reach('giving')
            return [['http', socketOf(publicServer)]]
          },
          suspend: async () => {},
          goOn: (own: readonly PassedSocket[]) => {
            copies.push(...own)
            logged.push('serves again')
          },
        },
        files: { suspend: () => ({}), resume: () => logged.push('has the files') },
        trail: { suspend: async () => reach('suspended'), goOn: () => logged.push('has the trail') },
        tickets: { dayKey: () => undefined },
      })
      await withProgram(script, async () => {
        const failed = assert.rejects(restarts.restart(), /^Error: the new process took longer than 30 s$/)
        reach('started')
        await failed
      })
      const back = reached === 'suspended' ? ['has the files', 'has the trail', 'serves again'] : []
      assert.deepEqual(logged.splice(0), [
        ...back,
        'the restart failed: the new process took longer than 30 s',
      ])
      await withProgram('process.exit(3)', () => assert.rejects(restarts.restart(), /exit code 3/))
      assert.deepEqual(logged, ['the restart failed: the new process ended with exit code 3'])
    })
  }
})
