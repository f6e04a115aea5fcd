import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
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

async function listening(t: TestContext) {
  const server = createServer().listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  return server
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
    { when: 'when the other process ends before it has all', copies: 1, why: /exit code 1/ },
    { when: 'when requests cannot be held up', copies: 2, why: /cannot be held up/ },
  ]
  for (const { when, copies, why } of failures) {
    it(when, async (t) => {
      const [publicServer, admin] = [await listening(t), await listening(t)]
      const ports = [publicServer, admin].map((server) => (server.address() as AddressInfo).port)
      const connections: Partial<HandOverParts['connections']> = {
        sockets: () => [['http', socketOf(publicServer) as PassedSocket]],
        suspend: () => Promise.reject(new Error('cannot be held up')),
        // Ends as if it listened no more.
        goOn: (own) => {
          for (const copy of own as readonly PassedSocket[]) copy.close()
        },
      }
      const handOver = new HandOver({
        connections,
        obstacle: () => undefined,
        trail: { goOn: () => {} },
        revocations: {},
        memories: { ...Object.fromEntries(MEMORIES.map((name) => [name, {}])), guards: { deliveries: {} } },
      } as unknown as HandOverParts)
      const restarts = new Restarts({
        predecessorIsHere: () => false,
        onSuspended: () => {},
        onBack: () => {},
        settings: { audit: {} },
        log: { info: () => {}, error: () => {} },
        serving: { handOver },
        admin,
      } as never)
      const { argv } = process
      process.argv = [process.execPath, '--eval', successor(copies)]
      try {
        await assert.rejects(restarts.restart(), why)
      } finally {
        process.argv = argv
      }
      for (const port of ports) assert.equal(await takesConnections(port), true)
      for (const server of [publicServer, admin]) await new Promise((resolve) => server.close(resolve))
      for (const port of ports) assert.equal(await takesConnections(port), false)
    })
  }
})
