import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readEnvironment } from '../../backend/environment.ts'
import { freePort } from '../../backend/testing/free-port.ts'
import { parseEnvironment } from '../config/environment.ts'
import { parseStoreSettings } from '../config/rules/store-address.ts'
import { NO_REDIS } from '../store/redis-server.test-support.ts'
import { readAudit } from '../testing/audit-file.ts'
import type { RunningProcess } from '../testing/running-process.ts'
import { run } from './child-process.ts'
import { type Call, call, type ReceivedResponse } from './client.ts'
import { type ComposeService, readCompose } from './compose-file.ts'
import { until } from './running-gateway.ts'
import { createTestPostgres, NO_POSTGRES, type TestPostgres } from './test-postgres.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const CONFIG = join(ROOT, 'config')
const NO_HAPROXY =
  spawnSync('haproxy', ['-v']).status === 0
    ? false
    : 'NOT TESTED: haproxy is not installed (apt-get install haproxy)'
const SERVICE_KEYS = new Set(
  'build cap_drop command depends_on environment healthcheck image networks ports read_only restart secrets security_opt stop_grace_period tmpfs user volumes'.split(
    ' ',
  ),
)
const compose = readCompose()
const services = Object.entries(compose.services)
const ours = (target: string) => services.filter(([, { build }]) => build?.target === target)
const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8')

/** Variables that the image sets, and that compose.yaml may override. */
function imageEnvironment(target: string): Record<string, string> {
  const stage =
    dockerfile.split(/^FROM /m).find((text) => text.split('\n')[0]?.endsWith(` AS ${target}`)) ?? ''
  return Object.fromEntries(
    [...stage.matchAll(/\b([A-Z_]+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]),
  )
}

describe('config/compose.yaml', () => {
  it('has only keys of the Compose specification that this test knows', () => {
    assert.deepEqual(
      Object.keys(compose).filter((key) => !key.startsWith('x-')),
      ['name', 'services', 'networks', 'volumes', 'secrets'],
    )
    for (const [name, service] of services) {
      assert.deepEqual(
        Object.keys(service).filter((key) => !SERVICE_KEYS.has(key)),
        [],
        name,
      )
      assert.equal(typeof service.image, 'string', name)
      for (const value of Object.values(service.environment ?? {})) assert.equal(typeof value, 'string', name)
    }
    assert.deepEqual([ours('gateway').length, ours('backend').length], [2, 2])
  })

  it('refers only to what is there, and declares only what is used', () => {
    const used = (of: (service: ComposeService) => readonly string[] | undefined) =>
      [...new Set(services.flatMap(([, service]) => of(service) ?? []))].sort()
    assert.deepEqual(
      used(({ networks }) => networks),
      Object.keys(compose.networks).sort(),
    )
    assert.deepEqual(
      used(({ secrets }) => secrets),
      Object.keys(compose.secrets).sort(),
    )
    const mounts = services.flatMap(([, { volumes = [] }]) =>
      volumes.map((volume) => volume.split(':')[0] as string),
    )
    const named = mounts.filter((mount) => !mount.startsWith('.'))
    // No volume is used twice, because a data directory belongs to one process.
    assert.deepEqual(named.sort(), Object.keys(compose.volumes).sort())
    for (const mount of mounts.filter((path) => path.startsWith('.')))
      assert.ok(existsSync(join(CONFIG, mount)), mount)
    for (const [name, { depends_on, build, secrets = [], ...rest }] of services) {
      for (const other of Object.keys(depends_on ?? {}))
        assert.ok(other in compose.services, `${name}: ${other}`)
      const places = [...JSON.stringify(rest).matchAll(/\/run\/secrets\/(\w+)/g)].map(
        ([, secret]) => secret as string,
      )
      assert.ok(
        places.every((secret) => secrets.includes(secret)),
        name,
      )
      if (build === undefined) continue
      assert.ok(existsSync(join(CONFIG, build.context, 'Dockerfile')))
      assert.match(dockerfile, new RegExp(`^FROM \\S+ AS ${build.target}$`, 'm'))
    }
    for (const { file } of Object.values(compose.secrets)) assert.match(file, /^\.\.\/data\/secrets\//)
    assert.match(readFileSync(join(ROOT, '.gitignore'), 'utf8'), /^\/?data\/?$/m)
  })

  it('publishes only the load balancer, and gives each service only the rights that it needs', () => {
    for (const [name, service] of services) {
      assert.equal(service.ports !== undefined, name === 'load-balancer', name)
      assert.equal(service.read_only, true, name)
      assert.deepEqual(service.cap_drop, ['ALL'], name)
      assert.deepEqual(service.security_opt, ['no-new-privileges:true'], name)
      assert.match(service.user ?? '', /^[1-9]\d*:[1-9]\d*$/, name)
      // Our images have a health check of their own.
      assert.ok(service.healthcheck !== undefined || service.build !== undefined, name)
    }
    const onNetwork = (network: string) =>
      services.filter(([, { networks }]) => networks?.includes(network)).map(([name]) => name)
    assert.deepEqual(onNetwork('edge'), ['load-balancer', 'gateway-1', 'gateway-2'])
    assert.deepEqual(onNetwork('store'), ['gateway-1', 'gateway-2', 'store'])
    assert.deepEqual(onNetwork('database'), ['backend-1', 'backend-2', 'database'])
    for (const [name, { internal }] of Object.entries(compose.networks))
      assert.equal(internal === true, name !== 'edge')
  })

  it('sets variables that the programs know, to valid values', () => {
    for (const [name, { environment = {} }] of ours('gateway')) {
      const env = { ...imageEnvironment('gateway'), ...environment }
      assert.deepEqual(parseEnvironment(env).faults, [], name)
      const store = parseStoreSettings(env, () =>
        'a line that is long enough for every secret'.replaceAll(' ', '-'),
      )
      assert.deepEqual(store.faults, undefined, name)
      assert.ok(existsSync(join(ROOT, environment.GATEWAY_CONFIG as string)))
    }
    const read = new Set<string>()
    const spy = (env: Record<string, string>) =>
      new Proxy(env, {
        get: (target, key) => {
          read.add(String(key))
          return target[String(key)]
        },
      })
    for (const [name, { environment = {} }] of ours('backend')) {
      const settings = readEnvironment(spy({ ...imageEnvironment('backend'), ...environment }))
      assert.ok(!('faults' in settings), name)
      // PGPASSFILE is read by the driver.
      assert.deepEqual(
        Object.keys(environment).filter((key) => !read.has(key)),
        ['PGPASSFILE'],
        name,
      )
    }
  })

  it('gives the gateways the shipped configuration, with the load balancer as a trusted proxy', () => {
    const read = (file: string) => JSON.parse(readFileSync(join(CONFIG, file), 'utf8'))
    const { trustedProxies, $schema, ...rest } = read('compose/gateway.json')
    const { $schema: _, ...shipped } = read('gateway.json')
    assert.deepEqual(rest, shipped)
    assert.ok(existsSync(join(CONFIG, 'compose', $schema)))
    assert.deepEqual(
      trustedProxies,
      compose.networks.edge?.ipam?.config.map(({ subnet }) => subnet),
    )
  })
})

describe('the parts of config/compose.yaml as processes', {
  skip: NO_POSTGRES || NO_REDIS || NO_HAPROXY,
}, () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-compose-'))
  const CLIENT = '127.0.0.2'
  const agent = new Agent({ keepAlive: true })
  const children: ChildProcess[] = []
  const programs = new Map<string, RunningProcess>()
  const ports = new Map<string, number>()
  let postgres: TestPostgres
  let base: string

  /** Replaces hosts and paths of containers by those of this test. */
  function placed(name: string, text: string): string {
    let result = text
      .replaceAll('/run/secrets', join(dir, 'secrets'))
      .replaceAll('/data', join(dir, name))
      .replaceAll('valkey-', 'redis-')
    for (const [host, port] of ports) result = result.replaceAll(host, `127.0.0.1:${port}`)
    return result
  }

  const environmentOf = (name: string) =>
    Object.fromEntries(
      Object.entries(compose.services[name]?.environment ?? {}).map(([key, value]) => [
        key,
        placed(name, value),
      ]),
    )

  function start(name: string): RunningProcess {
    const data = join(dir, name)
    mkdirSync(data, { recursive: true })
    const isGateway = name.startsWith('gateway')
    const port = (inside: number) => String(ports.get(`${name}:${inside}`))
    const program = isGateway
      ? run('gateway/main.ts', {
          ...environmentOf(name),
          GATEWAY_CONFIG: join(dir, 'gateway.json'),
          GATEWAY_PORT: port(8080),
          GATEWAY_ADMIN_PORT: port(9090),
          // In the container both paths are below /app, where the volume is.
          GATEWAY_DATA_DIR: data,
          GATEWAY_AUDIT_FILE: join(data, 'audit.ndjson'),
        })
      : run('backend/main.ts', {
          ...environmentOf(name),
          DATABASE_URL: postgres.url,
          BACKEND_GATEWAY_SECRET_FILE: join(dir, 'secrets', 'gateway'),
          BACKEND_PORT: port(3000),
          BACKEND_DATA_DIR: data,
        })
    programs.set(name, program)
    return program
  }

  /** Starts a program in its own process group, because the store's shell starts the server as a child. */
  function startChild(command: string, args: readonly string[]): void {
    children.push(spawn(command, args, { stdio: 'ignore', detached: true }))
  }

  function accepts(port: number): Promise<boolean> {
    const socket = connect(port, '127.0.0.1')
    return once(socket, 'connect')
      .then(
        () => true,
        () => false,
      )
      .finally(() => socket.destroy())
  }

  const isHealthy = ([command, ...args]: readonly string[]) =>
    (command === 'CMD-SHELL'
      ? spawnSync('sh', ['-c', args[0] as string])
      : spawnSync(args[0] as string, args.slice(1))
    ).status === 0

  before(async () => {
    postgres = await createTestPostgres()
    mkdirSync(join(dir, 'secrets'))
    for (const secret of ['gateway', 'store_password', 'store_key', 'admin_token'])
      writeFileSync(join(dir, 'secrets', secret), `${randomBytes(32).toString('hex')}\n`, { mode: 0o600 })
    const hosts = [
      'load-balancer:8080',
      'load-balancer:8404',
      'store:6379',
      'backend-1:3000',
      'backend-2:3000',
    ]
    for (const host of [...hosts, 'gateway-1:8080', 'gateway-2:8080', 'gateway-1:9090', 'gateway-2:9090'])
      ports.set(host, await freePort())
    base = `http://127.0.0.1:${ports.get('load-balancer:8080')}`

    mkdirSync(join(dir, 'store'))
    const { command = [], healthcheck } = compose.services.store as ComposeService
    const storePort = ports.get('store:6379')
    const [shell = '', ...words] = command.map((word) =>
      placed('store', word).replaceAll('$$', '$').replace('server -', `server - --port ${storePort}`),
    )
    startChild(shell, words)
    const probe = healthcheck?.test.map((word) =>
      placed('store', word).replaceAll('$$', '$').replace('redis-cli', `redis-cli -p ${storePort}`),
    )
    await until(() => (isHealthy(probe ?? []) ? true : undefined))

    const backends = ['backend-1', 'backend-2'].map(start)
    for (const backend of backends) await backend.line(({ msg }) => msg?.startsWith('listening at ') === true)
    const config = JSON.parse(readFileSync(join(CONFIG, 'compose/gateway.json'), 'utf8'))
    // The load balancer has another address here. The long deadline is for a busy machine.
    writeFileSync(
      join(dir, 'gateway.json'),
      JSON.stringify({ ...config, trustedProxies: ['127.0.0.1'], onStoreFailure: { deadlineMs: 5000 } }),
    )
    const gateways = ['gateway-1', 'gateway-2'].map(start)
    for (const gateway of gateways) await gateway.line(({ msg }) => msg === 'listening')

    // HAProxy takes a gateway for healthy until the first check, so both must be ready before.
    for (const name of ['gateway-1:9090', 'gateway-2:9090']) {
      await until(async () => {
        const { status: code, body } = await call(`http://127.0.0.1:${ports.get(name)}/readyz`)
        return code === 200 && !body.includes('store') ? true : undefined
      })
    }

    const haproxy = join(dir, 'haproxy.cfg')
    let text = readFileSync(join(CONFIG, 'compose/haproxy.cfg'), 'utf8')
      .replace('bind :8080', `bind 127.0.0.1:${ports.get('load-balancer:8080')}`)
      .replace('127.0.0.1:8404', `127.0.0.1:${ports.get('load-balancer:8404')}`)
      .replace(' check port 9090', ' check')
    for (const name of ['gateway-1', 'gateway-2'])
      text = text.replace(
        `${name}:8080`,
        `127.0.0.1:${ports.get(`${name}:8080`)} port ${ports.get(`${name}:9090`)}`,
      )
    writeFileSync(haproxy, text)
    startChild('haproxy', ['-db', '-f', haproxy])
    await until(async () => ((await status('/.well-known/jwks.json')) === 200 ? true : undefined))
  })
  after(async () => {
    agent.destroy()
    await Promise.all([...programs.values()].map((program) => program.end('SIGKILL')))
    for (const child of children) {
      if (child.exitCode !== null) continue
      const ended = once(child, 'exit')
      process.kill(-(child.pid as number), 'SIGKILL')
      await ended
    }
    await postgres?.close()
    await until(async () => ((await accepts(ports.get('store:6379') as number)) ? undefined : true))
    rmSync(dir, { recursive: true, force: true })
  })

  const ask = (path: string, options: Call = {}): Promise<ReceivedResponse> =>
    call(base + path, { agent, ...options })
  const status = (path: string, options?: Call) =>
    ask(path, options).then(
      (response) => response.status,
      () => 0,
    )

  async function login(email: string): Promise<Record<string, string>> {
    const body = { email, password: 'demo-password' }
    const response = await ask('/api/login', { method: 'POST', body })
    assert.equal(response.status, 200, response.body)
    return { authorization: `Bearer ${response.json<{ accessToken: string }>().accessToken}` }
  }

  const balanceOf = async (headers: Record<string, string>) =>
    (await ask('/api/balance', { headers })).json<{ accountId: string; balance: string }>()

  let alice: Record<string, string>
  let signedInMs = 0
  let bob: { accountId: string; balance: string }

  /** Sends a transfer with one key until it is done, as a client does after a broken connection. */
  async function transfer(amount: string): Promise<void> {
    const headers = { ...alice, 'idempotency-key': randomUUID() }
    const body = { toAccountId: bob.accountId, amount, currency: 'EUR' }
    await until(async () => {
      const code = await status('/api/transfer', { method: 'POST', headers, body })
      assert.ok([0, 201, 409, 502, 503].includes(code), String(code))
      return code === 201 ? true : undefined
    })
  }

  it('serve a sign-in, a balance and a transfer through the load balancer, by both gateways', async () => {
    signedInMs = performance.now()
    alice = await login('alice@example.com')
    bob = await balanceOf(await login('bob@example.com'))
    await transfer('12.50')
    assert.equal((await balanceOf(alice)).balance, '987.50')
    for (const name of ['gateway-1', 'gateway-2']) {
      await until(async () => {
        await status('/api/data', { headers: alice, agent: new Agent() })
        const records = readAudit(join(dir, name, 'audit.ndjson'))
        return records.some(({ type, path }) => type === 'API_REQUEST' && path === '/api/data')
          ? true
          : undefined
      })
    }
  })

  it('believe only the load balancer about the address', async () => {
    const headers = {
      ...alice,
      'x-forwarded-for': '203.0.113.9',
      forwarded: 'for=203.0.113.9',
      'x-request-id': 'claimed',
    }
    // From another address than the load balancer has.
    await ask('/api/data', { headers, agent: new Agent({ localAddress: CLIENT }) })
    const record = await until(() =>
      ['gateway-1', 'gateway-2']
        .flatMap((name) => readAudit(join(dir, name, 'audit.ndjson')))
        .find(({ requestId }) => requestId === 'claimed'),
    )
    assert.equal(record.ip, CLIENT)
  })

  it('together let no more sign-ins through than one gateway would', async () => {
    const [used] = await postgres.query<{ sessions: number }>(
      'SELECT count(*)::int AS sessions FROM sessions',
    )
    assert.equal(used?.sessions, 2)
    const attempts = await Promise.all(
      Array.from({ length: 12 }, () =>
        status('/api/login', {
          method: 'POST',
          body: { email: 'nobody@example.com', password: 'x' },
          agent: new Agent(),
        }),
      ),
    )
    // The test above used two of this address's five a minute. On a slow machine they may have expired.
    const most = performance.now() - signedInMs < 50_000 ? 3 : 5
    const admitted = attempts.filter((code) => code !== 429)
    assert.ok(admitted.length >= 1 && admitted.length <= most, String(attempts))
    assert.ok(
      admitted.every((code) => code === 401),
      String(attempts),
    )
  })

  it('go on serving when a gateway and a backend are killed, and use them again when they are back', async () => {
    await programs.get('gateway-1')?.end('SIGKILL')
    await transfer('1.00')
    await programs.get('backend-1')?.end('SIGKILL')
    await transfer('1.00')
    assert.equal((await balanceOf(alice)).balance, '985.50')
    const backend = start('backend-1')
    await backend.line(({ msg }) => msg?.startsWith('listening at ') === true)
    await start('gateway-1').line(({ msg }) => msg === 'listening')
    await programs.get('gateway-2')?.end('SIGTERM')
    await programs.get('backend-2')?.end('SIGTERM')
    await transfer('1.00')
    assert.equal((await balanceOf(alice)).balance, '984.50')
  })
})
