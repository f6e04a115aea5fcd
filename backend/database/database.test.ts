import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { onEachDatabase, onPostgres, openBehindProxy } from '../testing/databases.ts'
import {
  DatabaseBusyError,
  DatabaseUnavailableError,
  MAX_ATTEMPTS,
  retrySerialization,
  sqlState,
} from './database.ts'
import { migrate } from './migrations.ts'
import { MAX_CONNECTIONS, openPostgres } from './postgres.ts'

const fault = (code: string) => Object.assign(new Error('from the database'), { code })

describe('retrySerialization', () => {
  it('tries again after a serialisation failure and after a deadlock, and after nothing else', async () => {
    for (const code of ['40001', '40P01']) {
      let tried = 0
      const result = await retrySerialization(async () => {
        if (++tried < 3) throw fault(code)
        return 'done'
      })
      assert.equal(result, 'done')
      assert.equal(tried, 3)
    }
    let tried = 0
    const other = retrySerialization(async () => {
      tried++
      throw fault('23505')
    })
    await assert.rejects(other, { code: '23505' })
    assert.equal(tried, 1)
  })

  it('gives up after a bounded number of attempts', async () => {
    let tried = 0
    const attempts = retrySerialization(async () => {
      tried++
      throw fault('40001')
    })
    await assert.rejects(attempts, DatabaseBusyError)
    assert.equal(tried, MAX_ATTEMPTS)
  })
})

describe('sqlState', () => {
  it('is the code of an error that has one', () => {
    assert.equal(sqlState(fault('23505')), '23505')
    assert.equal(sqlState(new Error('none')), undefined)
    assert.equal(sqlState('no error'), undefined)
    assert.equal(sqlState(Object.assign(new Error('odd'), { code: 7 })), undefined)
  })
})

onEachDatabase('a database', (database) => {
  it('gives the same types, embedded or on a server', async () => {
    const [row] = await database().query(
      `SELECT 9007199254740993::bigint AS big, 7::int AS small, $1::timestamptz AS at, $2::uuid AS id,
              '{"a":[1]}'::jsonb AS json, NULL::text AS nothing`,
      [new Date('2026-03-01T12:00:00.123Z'), '01890a5d-ac96-774b-bcce-b302099a8057'],
    )
    assert.deepEqual(row, {
      big: 9007199254740993n,
      small: 7,
      at: new Date('2026-03-01T12:00:00.123Z'),
      id: '01890a5d-ac96-774b-bcce-b302099a8057',
      json: { a: [1] },
      nothing: null,
    })
  })

  it('runs transactions serialisable, and keeps nothing of one that throws', async () => {
    await database().query('CREATE TABLE probe (value bigint)')
    const crash = new Error('crash')
    const failing = database().transaction(async (transaction) => {
      const [level] = await transaction.query('SHOW transaction_isolation')
      assert.equal(level?.transaction_isolation, 'serializable')
      await transaction.query('INSERT INTO probe VALUES (1)')
      throw crash
    })
    await assert.rejects(failing, crash)
    assert.deepEqual(await database().query('SELECT * FROM probe'), [])
  })

  it('is not stuck after a transaction whose statement failed', async () => {
    const failing = database().transaction((transaction) => transaction.query('SELECT 1/0'))
    await assert.rejects(failing, { code: '22012' })
    assert.deepEqual(await database().query('SELECT 1 AS one'), [{ one: 1 }])
  })

  it('is migrated once, however many programs start together', async () => {
    const applied = await Promise.all([migrate(database()), migrate(database())])
    assert.deepEqual(applied.flat(), [])
    const recorded = await database().query<{ name: string }>('SELECT name FROM migrations ORDER BY name')
    assert.deepEqual(recorded, [
      { name: '0001-initial' },
      { name: '0002-oauth' },
      { name: '0003-sign-in-and-grants' },
      { name: '0004-retention' },
    ])
  })

  it('is left alone when a newer version has migrated it', async () => {
    await database().query("INSERT INTO migrations (name) VALUES ('9999-future')")
    await assert.rejects(migrate(database()), /newer version: 9999-future/)
    await database().query("DELETE FROM migrations WHERE name = '9999-future'")
  })
})

onPostgres('a database on a server', (database) => {
  it('repeats a transaction when another one has written what it read', async () => {
    await database().query('CREATE TABLE counters (id int PRIMARY KEY, value int)')
    await database().query('INSERT INTO counters VALUES (1, 0)')
    // Two connections, so that the first reader waits only for the second, not for a connection.
    await Promise.all([database().query('SELECT 1'), database().query('SELECT 1')])
    let attempts = 0
    const { promise: twoHaveRead, resolve } = Promise.withResolvers<void>()
    const increment = () =>
      database().transaction(async (transaction) => {
        const [row] = await transaction.query<{ value: number }>('SELECT value FROM counters WHERE id = 1')
        if (++attempts === 2) resolve()
        await twoHaveRead
        await transaction.query('UPDATE counters SET value = $1 WHERE id = 1', [(row?.value ?? 0) + 1])
      })
    await Promise.all(Array.from({ length: 8 }, increment))
    assert.deepEqual(await database().query('SELECT value FROM counters'), [{ value: 8 }])
    assert.ok(attempts > 8, 'two have read the same value')
  })

  it('repeats no transaction that waited in a queue, and keeps no lock after it', async () => {
    await database().query('CREATE TABLE queued (id text PRIMARY KEY, value int)')
    await database().query("INSERT INTO queued VALUES ('a', 0), ('b', 0)")
    let attempts = 0
    const increment = (queueBy: readonly string[]) =>
      database().transaction(
        async (transaction) => {
          attempts++
          await transaction.query('UPDATE queued SET value = value + 1 WHERE id = ANY ($1)', [queueBy])
        },
        { queueBy },
      )
    await Promise.all(
      Array.from({ length: 40 }, (_, i) => increment(i % 2 === 0 ? ['a', 'b'] : ['b', 'a', 'b'])),
    )
    assert.deepEqual(await database().query('SELECT value FROM queued'), [{ value: 40 }, { value: 40 }])
    assert.equal(attempts, 40)
    await assert.rejects(
      database().transaction(() => Promise.reject(new Error('crash')), { queueBy: ['a'] }),
      /crash/,
    )
    const locks = "SELECT 1 AS one FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    assert.deepEqual(await database().query(locks), [])
  })

  it('ends a session of a backend that hangs, or whose host has gone', async () => {
    const settings = await database().query<{ name: string; setting: string }>(
      `SELECT name, setting FROM pg_settings WHERE name IN
        ('idle_in_transaction_session_timeout', 'idle_session_timeout', 'tcp_keepalives_idle', 'tcp_user_timeout')`,
    )
    assert.equal(settings.length, 4)
    for (const { name, setting } of settings) assert.notEqual(setting, '0', name)
    const unchecked = `SELECT 1 AS one FROM pg_settings
      WHERE name = 'client_connection_check_interval' AND setting = '0' AND version() ~ 'linux'`
    assert.deepEqual(await database().query(unchecked), [], 'also while a statement runs')
  })

  it('is busy, not away, while every connection is in use, and can be probed', async (t) => {
    const { url, proxy, drop } = await openBehindProxy()
    // Unlike the tests' database, this one waits only seconds for a connection.
    const crowded = await openPostgres({ url, onIdleFault: () => {} })
    t.after(async () => {
      await crowded.close()
      await proxy.cut()
      await drop()
    })
    let isDone = false
    const holders: Promise<void>[] = []
    try {
      for (let held = 0; held < MAX_CONNECTIONS; held++) {
        const { promise: holds, resolve } = Promise.withResolvers<void>()
        const holder = crowded.transaction(async (transaction) => {
          resolve()
          while (!isDone) await transaction.query('SELECT pg_sleep(0.1)')
        })
        holders.push(holder)
        await Promise.race([holds, holder])
      }
      await crowded.probe()
      await assert.rejects(crowded.query('SELECT 1'), DatabaseBusyError)
    } finally {
      isDone = true
      await Promise.all(holders)
    }
  })

  it('opens a new connection after one broke inside a transaction', async () => {
    const broken = database().transaction(async (transaction) => {
      await transaction.query('SELECT pg_terminate_backend(pg_backend_pid())')
    })
    await assert.rejects(broken)
    assert.deepEqual(await database().query('SELECT 1 AS one'), [{ one: 1 }])
  })
})

describe('openPostgres', () => {
  it('says at once that there is no server', async () => {
    const options = { url: 'postgres://nobody@127.0.0.1:1/none', onIdleFault: () => assert.fail() }
    await assert.rejects(openPostgres(options), DatabaseUnavailableError)
  })
})
