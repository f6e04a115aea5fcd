import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { createServer as createSecureServer, type TLSSocket } from 'node:tls'
import { freePort } from '../../../backend/testing/free-port.ts'
import type { StoreSettings } from '../../config/rules/store-address.ts'
import type { Take } from '../../limits/windows/window.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { makeAuthority, makeCertificate, SERVER_AUTH } from '../../tls/demo/throw-away-ca.ts'
import {
  NO_REDIS,
  PATIENT_MS,
  SILENT,
  startAddress,
  startCluster,
  startRedis,
  startSentinel,
  storeAt,
  until,
} from '../redis-server.test-support.ts'
import { SharedStore } from '../shared-store.ts'
import { checkStore } from '../store-check.ts'
import { StoreConnection } from './store-connection.ts'

describe('a connection to a real store', { skip: NO_REDIS }, () => {
  const cleanups: (() => void | Promise<void>)[] = []
  const faults: string[] = []
  afterEach(async () => {
    for (const clean of cleanups.splice(0).reverse()) await clean()
    faults.length = 0
  })

  function open(settings: StoreSettings): StoreConnection {
    const connection = new StoreConnection(settings, (cause) => faults.push(cause))
    cleanups.push(() => connection.close())
    return connection
  }

  function openStore(settings: StoreSettings): SharedStore {
    const store = new SharedStore(settings, SILENT, PATIENT_MS)
    cleanups.push(() => store.close())
    return store
  }

  /** Starts a server that is no store. @returns its port */
  async function listen(serve: (socket: Socket) => void): Promise<number> {
    const server = createServer((socket) => serve(socket.on('error', () => undefined)))
    cleanups.push(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return (server.address() as AddressInfo).port
  }

  function take(store: SharedStore, limit: number, key: string): Promise<Take | undefined> {
    const row = { identity: 'row', rule: `${limit} 60000 1` }
    return new Promise((resolve) => store.takes.take(row, key, resolve))
  }

  it('hides the password when an error of the server repeats it', async () => {
    const port = await listen((socket) =>
      socket.on('data', (data) => {
        const words = data.toString().split('\r\n')
        socket.write(`-ERR unknown command, with args beginning with: ${words.join(' ')}\r\n`)
      }),
    )
    const settings = storeAt('single', [port], { user: 'gateway', password: 'correct horse' })
    open(settings)
    await until(() => /args beginning with: .*AUTH.*\[password\]/.test(faults.join()), 'the fault')
    faults.push(...(await checkStore(settings)).faults)
    assert.match(faults.at(-1) ?? '', /^cannot be reached: .*AUTH.*\[password\]/)
    assert.doesNotMatch(faults.join(), /correct|horse/)
  })

  it('says when it is ready, and again after the server was away', async () => {
    const server = await startRedis()
    cleanups.push(() => server.stop())
    const connection = open(storeAt('single', [server.port]))
    await assert.rejects(connection.send(['PING']), /not connected/)
    let ready = 0
    connection.onReady(() => ready++)
    await until(() => connection.isReady, 'the connection')
    assert.equal(await connection.send(['PING']), 'PONG')
    const waiting = connection.send(['BLPOP', 'never', '0'])
    await Promise.all([assert.rejects(waiting), server.kill()])
    await server.restart()
    await until(() => connection.isReady, 'the connection')
    assert.equal(ready, 2)
    assert.ok(faults.length >= 1)
  })

  it('is not used when it is made only after `close`', async () => {
    let greet = (): void => undefined
    const asked = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    const port = await listen((socket) => {
      greet = () => socket.write('+OK\r\n')
      socket.on('data', () => asked.resolve())
      socket.on('close', () => gone.resolve())
    })
    const connection = open(storeAt('single', [port], { password: 'correct-horse' }))
    let ready = 0
    connection.onReady(() => ready++)
    await asked.promise
    connection.close()
    greet()
    await gone.promise
    assert.equal(ready, 0)
  })

  it('is tried ever more rarely where a proxy or a full server accepts it and closes it at once', {
    timeout: 60_000,
  }, async (t) => {
    const clock = performance.now.bind(performance)
    // The clock stands still, so each connection ends at once, on a busy machine too.
    t.mock.method(performance, 'now', () => 0)
    const times: number[] = []
    const sixTries = Promise.withResolvers<void>()
    const port = await listen((socket) => {
      if (times.push(clock()) === 6) sixTries.resolve()
      socket.end('-ERR max number of clients reached\r\n')
    })
    open(storeAt('single', [port]))
    await sixTries.promise
    const [first = 0, , , , , sixth = 0] = times
    // Each wait is at least half as long as it could be.
    assert.ok(sixth - first >= (50 + 100 + 200 + 400 + 800) / 2, `${sixth - first} ms`)
  })

  it('is made anew when asked to', async () => {
    const server = await startRedis()
    cleanups.push(() => server.stop())
    const connection = open(storeAt('single', [server.port]))
    await until(() => connection.isReady, 'the connection')
    const id = await connection.send(['CLIENT', 'ID'])
    connection.reset('why not')
    await until(() => faults.includes('why not'), 'the fault')
    await until(() => connection.isReady, 'the connection')
    assert.notEqual(await connection.send(['CLIENT', 'ID']), id)
  })

  it('signs in as a user with a password, and never tells it', async () => {
    const server = await startRedis(['--user', 'gateway', 'on', '>correct-horse', '~test:*', '+@all'])
    cleanups.push(() => server.stop())
    const good = open(storeAt('single', [server.port], { user: 'gateway', password: 'correct-horse' }))
    await until(() => good.isReady, 'the connection')
    assert.equal(await good.send(['ACL', 'WHOAMI']), 'gateway')
    open(storeAt('single', [server.port], { user: 'gateway', password: 'battery-staple' }))
    await until(() => /WRONGPASS/.test(faults.join()), 'the fault')
    assert.doesNotMatch(faults.join(), /horse|staple/)
  })

  it('speaks TLS with a server whose authority it was given, and with no other', async (t) => {
    const dir = temporaryDirectory(t)
    const authority = await makeAuthority({ subject: 'CN=store' })
    const server = await makeCertificate({
      subject: 'CN=127.0.0.1',
      issuer: authority,
      san: [{ type: 'ip', value: '127.0.0.1' }],
      extendedKeyUsages: [SERVER_AUTH],
    })
    for (const [name, pem] of Object.entries({
      cert: server.certPem,
      key: server.keyPem,
      ca: authority.certPem,
    })) {
      writeFileSync(join(dir, name), pem)
    }
    const tlsPort = await freePort()
    const files = ['--tls-cert-file', join(dir, 'cert'), '--tls-key-file', join(dir, 'key')]
    const options = [
      '--tls-port',
      `${tlsPort}`,
      ...files,
      '--tls-ca-cert-file',
      join(dir, 'ca'),
      '--tls-auth-clients',
      'no',
    ]
    const redis = await startRedis(options)
    cleanups.push(() => redis.stop())
    const good = open(storeAt('single', [tlsPort], { tls: { ca: authority.certPem } }))
    await until(() => good.isReady, 'the connection')
    assert.equal(await good.send(['PING']), 'PONG')
    const stranger = open(storeAt('single', [tlsPort], { tls: { ca: undefined } }))
    await until(() => /certificate/.test(faults.join()), 'the fault')
    assert.equal(stranger.isReady, false)
  })

  it('names its host in TLS (SNI), and verifies the certificate even with NODE_TLS_REJECT_UNAUTHORIZED=0', async () => {
    const authority = await makeAuthority({ subject: 'CN=store' })
    const { certPem, keyPem } = await makeCertificate({
      subject: 'CN=localhost',
      issuer: authority,
      san: [{ type: 'dns', value: 'localhost' }],
      extendedKeyUsages: [SERVER_AUTH],
    })
    const server = createSecureServer({ cert: certPem, key: keyPem }).listen(0, '127.0.0.1')
    cleanups.push(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const settingsWith = (ca: string | undefined) =>
      storeAt('single', [], { addresses: [{ host: 'localhost', port }], tls: { ca } })
    const met = once(server, 'secureConnection')
    open(settingsWith(authority.certPem))
    const [socket] = (await met) as [TLSSocket & { readonly servername: unknown }]
    cleanups.push(() => void socket.destroy())
    assert.equal(socket.servername, 'localhost')
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    cleanups.push(() => void delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
    const stranger = open(settingsWith(undefined))
    await until(() => stranger.isReady || /certificate/.test(faults.join()), 'the fault')
    assert.equal(stranger.isReady, false)
  })

  it('follows the master that Sentinel names', async () => {
    const { master, replica, sentinel, stop } = await startSentinel()
    cleanups.push(stop)
    const store = openStore(storeAt('sentinel', [sentinel.port]))
    await until(() => store.wasReached, 'the store')
    assert.equal((await take(store, 5, 'a'))?.remaining, 4)
    await until(async () => Number(await replica.command('DBSIZE')) > 0, 'the replica')
    await master.kill()
    await until(() => store.connection.isReady === false, 'the loss')
    await until(() => !store.breaker.isOpen && store.connection.isReady, 'the new master')
    const after = await take(store, 5, 'a')
    assert.ok(after?.allowed && after.remaining <= 3, 'the replica had the count')
    assert.equal(((await replica.command('ROLE')) as string[])[0], 'master')
  })

  it('follows an address to the new master while the old master lives on as its replica', async () => {
    const [old, heir] = [await startRedis(), await startRedis()]
    const address = await startAddress(old)
    cleanups.push(
      () => old.stop(),
      () => heir.stop(),
      () => address.stop(),
    )
    const store = openStore(storeAt('single', [address.port]))
    await until(() => store.wasReached, 'the store')
    await old.command('REPLICAOF', '127.0.0.1', `${heir.port}`)
    address.moveTo(heir)
    assert.equal(await take(store, 5, 'a'), undefined)
    await until(() => !store.breaker.isOpen, 'the new master')
    assert.equal((await take(store, 5, 'a'))?.remaining, 4)
  })

  it('finds the server of each key in a cluster', async () => {
    const { ports, servers, stop } = await startCluster()
    cleanups.push(stop)
    const store = openStore(storeAt('cluster', ports.slice(0, 1), { hashKey: undefined }))
    await until(() => store.wasReached && !store.breaker.isOpen, 'the store')
    const other = openStore(storeAt('cluster', ports.slice(1), { hashKey: undefined }))
    await until(() => other.wasReached && !other.breaker.isOpen, 'the store')
    const callers = Array.from({ length: 60 }, (_, i) => `caller-${i}`)
    const first = await Promise.all(callers.map((caller) => take(store, 2, caller)))
    const second = await Promise.all(callers.map((caller) => take(other, 2, caller)))
    assert.deepEqual(new Set(first.map((each) => each?.remaining)), new Set([1]))
    assert.deepEqual(new Set(second.map((each) => each?.remaining)), new Set([0]))
    for (const server of servers) assert.ok(Number(await server.command('DBSIZE')) > 5)
  })

  it('to a cluster comes back after one of its servers was away', async () => {
    const { ports, servers, stop } = await startCluster()
    cleanups.push(stop)
    const store = openStore(storeAt('cluster', ports))
    await until(() => store.wasReached && !store.breaker.isOpen, 'the store')
    const [, lost] = servers
    await lost?.kill()
    const callers = Array.from({ length: 20 }, (_, i) => `caller-${i}`)
    await until(
      async () => (await Promise.all(callers.map((each) => take(store, 9, each)))).includes(undefined),
      'the loss',
    )
    await lost?.restart()
    await until(async () => {
      const takes = await Promise.all(callers.map((each) => take(store, 1000, each)))
      return !takes.includes(undefined)
    }, 'the cluster')
  })
})
