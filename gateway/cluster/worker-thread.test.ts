import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import type { Heir } from '../process/restart/serving-thread.ts'
import { type PassedConnection, peerOfSocket, takeConnection } from '../process/restart/sockets.ts'
import type { HandOverCommand } from './worker-messages.ts'
import { WorkerThread } from './worker-thread.ts'

/** Above the limit of open files. */
const CLOSED_FD = 1_000_000

describe('a worker that has ended', () => {
  let server: Server
  const clients: Socket[] = []
  const accepted: Socket[] = []

  before(async () => {
    server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    for (let count = 0; count < 2; count++) {
      clients.push(connect(port, '127.0.0.1'))
      const [socket] = (await once(server, 'connection')) as [Socket]
      accepted.push(socket)
    }
  })
  after(() => {
    for (const socket of [...clients, ...accepted]) socket.destroy()
    server.close()
  })

  const leavingWorker = () => {
    const posted: HandOverCommand['type'][] = []
    const passed: PassedConnection[] = []
    const thread = new WorkerThread(({ type }) => void (type === 'hurry' || posted.push(type)))
    const heir = { pass: (connection: PassedConnection) => void passed.push(connection) }
    void thread.leave(heir as unknown as Heir, new Promise(() => {}))
    return { thread, posted, passed }
  }
  /** A connection as a worker announces it. */
  const connection = (at: number) => {
    const taken = takeConnection(accepted[at] as Socket, undefined)
    assert.ok(taken)
    const { socket, ...rest } = taken
    return { connection: { ...rest, socket: socket.fd }, peer: peerOfSocket(socket) }
  }

  it('may have announced listeners that are closed by now: only a restart fails', () => {
    const thread = new WorkerThread(() => {})
    thread.receive({ type: 'listening', sockets: [['http', { fd: CLOSED_FD }]] })
    assert.throws(() => thread.sockets(), /fd/)
  })

  it('has its listeners passed on while it lives', () => {
    const thread = new WorkerThread(() => {})
    // A listener of this thread's own event loop could not be had twice.
    const fd = connection(0).connection.socket
    thread.receive({ type: 'listening', sockets: [['http', { fd }]] })
    const sockets = thread.sockets()
    assert.deepEqual(
      sockets.map(([name, socket]) => [name, socket.fd]),
      [['http', fd]],
    )
    // The same object for each restart that fails.
    assert.equal(thread.sockets()[0]?.[1], sockets[0]?.[1])
  })

  it('has no connection passed on that is closed', () => {
    const { thread, posted, passed } = leavingWorker()
    const { connection: own, peer } = connection(0)
    thread.receive({ type: 'connection', id: 1, connection: { ...own, socket: CLOSED_FD }, peer })
    assert.deepEqual([posted, passed], [['leave', 'passed'], []])
  })

  it('has no connection passed on whose descriptor is that of another client by now', () => {
    const { thread, posted, passed } = leavingWorker()
    const { peer } = connection(0)
    thread.receive({ type: 'connection', id: 1, connection: connection(1).connection, peer })
    assert.deepEqual([posted, passed], [['leave', 'passed'], []])
  })

  it('has no connection passed on that its client had closed already', () => {
    const { thread, posted, passed } = leavingWorker()
    const { connection: own } = connection(0)
    thread.receive({ type: 'connection', id: 1, connection: own, peer: undefined })
    assert.deepEqual([posted, passed], [['leave', 'passed'], []])
  })

  it('has its connections passed on while it lives', () => {
    const { thread, passed } = leavingWorker()
    const own = connection(0)
    thread.receive({ type: 'connection', id: 1, ...own })
    assert.deepEqual(
      passed.map(({ socket }) => socket.fd),
      [own.connection.socket],
    )
  })
})
