import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { freePort } from '../../backend/testing/free-port.ts'
import { leastRights } from './least-rights.test-support.ts'
import {
  NO_REDIS,
  PATIENT_MS,
  type RedisServer,
  startCluster,
  startRedis,
  startSentinel,
  storeAt,
} from './redis-server.test-support.ts'
import { checkStore } from './store-check.ts'

const CONFIGURED = ['--appendonly', 'yes', '--maxmemory-policy', 'noeviction']
const CLUSTER =
  'is a server of a Redis Cluster: name several of its servers, separated by commas (if there is only one, name it twice)'
const USER = { user: 'countersign', password: 'a-password', prefix: 'countersign' }

describe('the check of a store', { skip: NO_REDIS }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis(CONFIGURED)
    await redis.command('ACL', 'SETUSER', ...leastRights('a-password'))
  })
  after(() => redis.stop())

  it('names server and version, finds nothing wrong with the user of docs/operate/operations.md, and leaves nothing behind', async () => {
    const secrets = { maskKeyFile: ['k'.repeat(32)], idempotencyKeyFile: ['l'.repeat(32)] }
    const { good, warnings, faults } = await checkStore(storeAt('single', [redis.port], USER), secrets)
    assert.match(
      good.join(),
      new RegExp(`^127\\.0\\.0\\.1:${redis.port}: reached, (Redis|Valkey) \\d+\\.\\d+\\.\\d+$`),
    )
    assert.deepEqual([warnings, faults], [[], []])
    const salted = ['countersign:{mask-key}', 'countersign:{idempotency-key}']
    assert.equal(await redis.command('DEL', ...salted), 2)
    assert.equal(await redis.command('DBSIZE'), 0)
  })

  for (const [name, kept] of [
    ['maskKeyFile', 'countersign:{mask-key}'],
    ['idempotencyKeyFile', 'countersign:{idempotency-key}'],
  ] as const)
    it(`tells two values of ${name} apart, and leaves none in the store`, async () => {
      const [key, other] = ['k'.repeat(32), 'l'.repeat(32)]
      const check = (one: string) => checkStore(storeAt('single', [redis.port], USER), { [name]: [one] })
      assert.deepEqual((await check(key)).faults, [])
      assert.deepEqual((await check(key)).faults, [])
      assert.match((await check(other)).faults.join(), new RegExp(`another "${name}"`))
      assert.ok(!String(await redis.command('GET', kept)).includes(key))
      await redis.command('DEL', kept)
    })

  it('lets gateways change "idempotencyKeyFile" one after the other, and no faster', async () => {
    const [old, next] = ['k'.repeat(32), 'l'.repeat(32)]
    const check = (...lines: string[]) =>
      checkStore(storeAt('single', [redis.port], USER), { idempotencyKeyFile: lines })
    for (const lines of [
      [old],
      [old, next],
      [old],
      [old, next],
      [next, old],
      [old, next],
      [next, old],
      [next],
    ])
      assert.deepEqual((await check(...lines)).faults, [], lines.join())
    assert.match((await check(old, next)).faults.join(), /another "idempotencyKeyFile"/)
    await redis.command('DEL', 'countersign:{idempotency-key}')
    await check(old)
    assert.match((await check(next, old)).faults.join(), /another "idempotencyKeyFile"/)
    await redis.command('DEL', 'countersign:{idempotency-key}')
  })

  it('names each right that the user lacks', async () => {
    const rights = leastRights('').filter((word) => word.startsWith('+') && word !== '+info')
    assert.ok(rights.length > 15)
    for (const right of rights) {
      const name = right.slice(1)
      await redis.command('ACL', 'SETUSER', 'countersign', `-${name}`)
      const secrets = { idempotencyKeyFile: ['l'.repeat(32)] }
      const { faults } = await checkStore(storeAt('single', [redis.port], USER), secrets)
      await redis.command('ACL', 'SETUSER', 'countersign', right)
      assert.ok(
        faults.some((fault) => fault.startsWith(`the server refuses ${name.toUpperCase()}: NOPERM`)),
        `${name}: ${faults.join()}`,
      )
    }
  })

  it("says that a user without INFO hides eviction and persistence, and refuses a prefix that is not the user's", async () => {
    await redis.command('ACL', 'SETUSER', 'countersign', '-info')
    const blind = await checkStore(storeAt('single', [redis.port], USER))
    await redis.command('ACL', 'SETUSER', 'countersign', '+info')
    assert.deepEqual(blind.faults, [])
    assert.match(blind.warnings.join(), /eviction and persistence cannot be checked: NOPERM/)
    const foreign = await checkStore(storeAt('single', [redis.port], { ...USER, prefix: 'other' }))
    assert.match(foreign.faults.join(), /the server refuses SET: NOPERM/)
  })

  it('warns of a server that evicts keys or keeps nothing on the disk', async () => {
    const careless = await startRedis(['--maxmemory-policy', 'allkeys-lru'])
    const { warnings, faults } = await checkStore(storeAt('single', [careless.port]))
    await careless.stop()
    assert.deepEqual(faults, [])
    assert.match(warnings.join('\n'), /maxmemory-policy is allkeys-lru.*\n.*appendonly is off/)
  })

  it('says which server hangs, and to what it gave no reply', { timeout: 60_000 }, async () => {
    const hanging = await startRedis(CONFIGURED)
    hanging.signal('SIGSTOP')
    for (const [kind, why] of [
      ['single', `no reply of 127.0.0.1:${hanging.port} to INFO within 2 s`],
      ['cluster', `no reply of 127.0.0.1:${hanging.port} to INFO within 2 s`],
      ['sentinel', `Sentinel 127.0.0.1:${hanging.port}: no reply of the Sentinel within 2 s`],
    ] as const) {
      const { good, faults } = await checkStore(storeAt(kind, [hanging.port]))
      assert.deepEqual([good, faults], [[], [`cannot be reached: ${why}`]])
    }
    const secret = await checkStore(storeAt('single', [hanging.port], USER))
    assert.match(secret.faults.join(), /^cannot be reached: no reply of 127\.0\.0\.1:\d+ within 2 s$/)
    await hanging.stop()
  })

  it('refuses a replica, a wrong password and a port where nobody listens', async () => {
    const replica = await startRedis(['--replicaof', '127.0.0.1', `${redis.port}`])
    const { faults } = await checkStore(storeAt('single', [replica.port]))
    await replica.stop()
    assert.match(faults.join(), /the server refuses SET: READONLY/)
    const wrong = await checkStore(storeAt('single', [redis.port], { ...USER, password: 'wrong' }))
    assert.match(wrong.faults.join(), /^cannot be reached: WRONGPASS/)
    const nobody = await checkStore(storeAt('single', [await freePort()]))
    assert.match(nobody.faults.join(), /^cannot be reached: .*ECONNREFUSED/)
  })

  it('asks the master that the Sentinels name, with one more right', async () => {
    const { master, sentinel, stop } = await startSentinel(PATIENT_MS)
    try {
      await master.command('ACL', 'SETUSER', ...leastRights('a-password'))
      const settings = storeAt('sentinel', [sentinel.port], USER)
      assert.match((await checkStore(settings)).faults.join(), /NOPERM.*role/i)
      await master.command('ACL', 'SETUSER', 'countersign', '+role')
      const { good, faults } = await checkStore(settings)
      assert.deepEqual(faults, [])
      assert.match(good.join(), /^the master: reached, /)
    } finally {
      await stop()
    }
  })

  it('asks every server of a cluster, with two more rights', async () => {
    const { servers, ports, stop } = await startCluster()
    try {
      for (const server of servers)
        await server.command('ACL', 'SETUSER', ...leastRights('a-password'), '+cluster|slots', '+asking')
      const { good, faults } = await checkStore(storeAt('cluster', ports, USER))
      assert.deepEqual(faults, [])
      assert.equal(good.length, 3)
      for (const port of ports)
        assert.deepEqual((await checkStore(storeAt('single', [port], USER))).faults, [CLUSTER])
    } finally {
      await stop()
    }
  })
})
