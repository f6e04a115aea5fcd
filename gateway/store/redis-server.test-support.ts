import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@redis/client'
import { freePort } from '../../backend/testing/free-port.ts'
import type { StoreSettings } from '../config/rules/store-address.ts'

/** The reason to skip a test where redis-server is not installed; false where it is. */
export const NO_REDIS =
  spawnSync('redis-server', ['--version']).status === 0
    ? false
    : 'NOT TESTED: redis-server is not installed (apt-get install redis-server)'

/** A real redis-server, without a disk unless asked for. */
export interface RedisServer {
  readonly port: number
  readonly child: ChildProcess
  /** Sends one command on a connection of its own. */
  command(...args: readonly string[]): Promise<unknown>
  /** `SIGSTOP` freezes it, `SIGCONT` lets it go on. */
  signal(signal: NodeJS.Signals): void
  kill(): Promise<void>
  /** Starts it again on the same port and directory, after `kill`. */
  restart(): Promise<void>
  /** Ends it and removes its directory. */
  stop(): Promise<void>
  /** CPU time of the process so far. */
  cpuUs(): Promise<number>
}

/** How long a test's gateway waits for the store, if the wait is not tested. A busy machine delays replies. */
export const PATIENT_MS = 30_000

/** An observer of a store. */
export const SILENT = { onAway: () => undefined, onBack: () => undefined, onFault: () => undefined }

/** On Linux the server ends with the test, even when the test is killed. */
const PROGRAM: readonly [string, ...string[]] =
  process.platform === 'linux' ? ['setpriv', '--pdeathsig', 'KILL', 'redis-server'] : ['redis-server']

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** @param options further arguments, such as `['--appendonly', 'yes']` */
export async function startRedis(options: readonly string[] = []): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'redis-'))
  const port = await freePort()
  const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', dir, '--save', '', ...options]
  return serve(dir, port, args)
}

async function serve(dir: string, port: number, args: readonly string[]): Promise<RedisServer> {
  let child = await spawnServer(port, args)
  const kill = async () => {
    if (!running.delete(child)) return
    child.ref()
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  const command = (...words: readonly string[]) => commandOn(port, words)
  return {
    port,
    get child() {
      return child
    },
    command,
    signal: (signal) => void child.kill(signal),
    kill,
    restart: async () => {
      child = await spawnServer(port, args)
    },
    stop: async () => {
      await kill()
      rmSync(dir, { recursive: true, force: true })
    },
    cpuUs: async () => {
      const info = String(await command('INFO', 'cpu'))
      const seconds = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1])
      return (seconds('used_cpu_user') + seconds('used_cpu_sys')) * 1e6
    },
  }
}

async function spawnServer(port: number, args: readonly string[]): Promise<ChildProcess> {
  const [program, ...before] = PROGRAM
  const child = spawn(program, [...before, ...args], { stdio: 'ignore' })
  // If a test fails early, the server runs until this process ends.
  child.unref()
  running.add(child)
  child.once('exit', () => running.delete(child))
  await until(() => accepts(port), `redis-server on port ${port}`)
  return child
}

export function storeAt(
  kind: StoreSettings['kind'],
  ports: readonly number[],
  more: Partial<StoreSettings> = {},
): StoreSettings {
  return {
    kind,
    addresses: ports.map((port) => ({ host: '127.0.0.1', port })),
    service: kind === 'sentinel' ? 'bank' : undefined,
    tls: undefined,
    user: undefined,
    password: undefined,
    prefix: 'test',
    hashKey: 'k'.repeat(32),
    ...more,
  }
}

/** A master with a replica, watched by one Sentinel. @param downAfterMs before the Sentinel gives the master up */
export async function startSentinel(downAfterMs = 1000) {
  // Otherwise a master waits 5 s for further replicas.
  const master = await startRedis(['--repl-diskless-sync-delay', '0'])
  const replica = await startRedis(['--replicaof', '127.0.0.1', `${master.port}`])
  await until(
    async () => String(await master.command('INFO', 'replication')).includes('state=online'),
    'the replica',
  )
  // A replica is called online up to a second before the first write is handed on to it.
  await master.command('SET', 'handed-on', '1')
  await until(async () => (await replica.command('GET', 'handed-on')) === '1', 'the first write')
  const dir = mkdtempSync(join(tmpdir(), 'sentinel-'))
  const file = join(dir, 'sentinel.conf')
  const port = await freePort()
  writeFileSync(
    file,
    [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir "${dir}"`,
      `sentinel monitor bank 127.0.0.1 ${master.port} 1`,
      `sentinel down-after-milliseconds bank ${downAfterMs}`,
      'sentinel failover-timeout bank 5000',
      '',
    ].join('\n'),
  )
  const sentinel = await serve(dir, port, [file, '--sentinel'])
  await until(
    async () => String(await sentinel.command('SENTINEL', 'REPLICAS', 'bank')).includes(`${replica.port}`),
    'Sentinel',
  )
  return {
    master,
    replica,
    sentinel,
    stop: async () => {
      for (const each of [sentinel, replica, master]) await each.stop()
    },
  }
}

/** Three masters with a third of the slots each. */
export async function startCluster() {
  const servers: RedisServer[] = []
  for (let i = 0; i < 3; i++) {
    const options = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000']
    servers.push(await startRedis([...options, '--cluster-port', `${await freePort()}`]))
  }
  const [first] = servers as [RedisServer]
  for (const [i, server] of servers.entries()) {
    const from = Math.floor((16_384 * i) / 3)
    await server.command('CLUSTER', 'ADDSLOTSRANGE', `${from}`, `${Math.floor((16_384 * (i + 1)) / 3) - 1}`)
    if (server !== first)
      await first.command('CLUSTER', 'MEET', '127.0.0.1', `${server.port}`, `${await busPortOf(server)}`)
  }
  for (const server of servers) {
    await until(async () => {
      const info = String(await server.command('CLUSTER', 'INFO'))
      return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3')
    }, 'the cluster')
  }
  return {
    servers,
    ports: servers.map(({ port }) => port),
    stop: async () => {
      for (const server of servers) await server.stop()
    },
  }
}

async function busPortOf(server: RedisServer): Promise<number> {
  const config = (await server.command('CONFIG', 'GET', 'cluster-port')) as string[]
  return Number(config[1])
}

/** An address that leads to one server and later to another, like a name or a load balancer. */
export async function startAddress(first: Pick<RedisServer, 'port'>) {
  let target = first
  const sockets: Socket[] = []
  const joined = (from: Socket, to: Socket) => {
    sockets.push(from)
    from.on('error', () => undefined)
    from.on('close', () => to.destroy())
    from.pipe(to)
  }
  const listener = createServer((socket) => {
    const server = connect(target.port, '127.0.0.1')
    joined(socket, server)
    joined(server, socket)
  }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    port: (listener.address() as AddressInfo).port,
    /** Connections so far. */
    get connections() {
      return sockets.length / 2
    },
    /** Leaves connections as they are. */
    moveTo: (next: Pick<RedisServer, 'port'>) => {
      target = next
    },
    stop: () => {
      listener.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Calls `holds` at growing intervals until it returns true; a call that throws is repeated. @throws after a minute */
export async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const endMs = performance.now() + 60_000
  let cause: unknown
  for (let pauseMs = 20; ; pauseMs = Math.min(pauseMs * 1.25, 100)) {
    try {
      if (await holds()) return
    } catch (error) {
      cause = error
    }
    if (performance.now() > endMs) throw new Error(`${what} did not come`, { cause })
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/** All clients are duplicates of this one: see `PARENT` of store-link.ts. */
const PARENT = createClient({ RESP: 2 })

async function commandOn(port: number, words: readonly string[]): Promise<unknown> {
  const client = PARENT.duplicate({ socket: { host: '127.0.0.1', port, reconnectStrategy: false } })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await client.sendCommand(words)
  } finally {
    client.destroy()
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
