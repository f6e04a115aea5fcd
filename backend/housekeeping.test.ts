import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Database } from './database/database.ts'
import { DAY_MS, earlierTime, STEP_ROWS, sweep } from './housekeeping.ts'
import { KEPT_MS } from './money/idempotency.ts'
import { onEachDatabase, onPostgres } from './testing/databases.ts'

const NOW = new Date('2026-03-01T12:00:00Z')

async function keep(database: Database, key: string, createdAt: Date): Promise<void> {
  await database.query(
    `INSERT INTO idempotency_keys (caller, path, key, fingerprint, status, body, created_at)
     VALUES ('caller', '/path', $1, '', 201, '', $2)`,
    [key, createdAt],
  )
}

async function keptKeys(database: Database): Promise<string[]> {
  const rows = await database.query<{ key: string }>('SELECT key FROM idempotency_keys ORDER BY key')
  return rows.map(({ key }) => key)
}

/** How many sweeps wait for a lock in this schema. */
async function waitingSweeps(database: Database): Promise<number> {
  const rows = await database.query(
    `SELECT 1 AS one FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE locktype = 'relation' AND relation = 'idempotency_keys'::regclass AND wait_event_type = 'Lock'`,
  )
  return rows.length
}

const expired = new Date(NOW.getTime() - KEPT_MS)

onEachDatabase('housekeeping', (database) => {
  it('deletes what has expired, and nothing else', async () => {
    await keep(database(), 'expired', expired)
    await keep(database(), 'in force', new Date(expired.getTime() + 1))
    assert.equal(await sweep(database(), NOW), true)
    assert.deepEqual(await keptKeys(database()), ['in force'])
    await database().query('DELETE FROM idempotency_keys')
  })

  it('deletes webhooks after 30 days, and verifications five years after their user is gone', async () => {
    const ago = (days: number) => new Date(NOW.getTime() - days * DAY_MS)
    const bodies = STEP_ROWS + 1
    await database().query(
      `INSERT INTO webhooks (id, client, source, webhook_id, body, received_at)
       SELECT gen_random_uuid(), 'acme', 'billing', n::text, 'body', CASE n WHEN 1 THEN $2::timestamptz ELSE $3 END
         FROM generate_series(1, $1) AS n`,
      [bodies, ago(29.9), ago(30)],
    )
    const user = async (deletedAt: Date | null) => {
      const [row] = await database().query<{ id: string }>(
        `INSERT INTO users (id, name, email, email_key, role, created_at, updated_at, deleted_at)
         VALUES (gen_random_uuid(), $3, $3, $3, 'user', $1, $1, $2) RETURNING id`,
        [ago(4000), deletedAt, deletedAt === null ? 'kept@example.com' : null],
      )
      await database().query(
        "INSERT INTO verifications (id, user_id, status, created_at) VALUES (gen_random_uuid(), $1, 'verified', $2)",
        [row?.id, ago(4000)],
      )
      return row?.id
    }
    const kept = [await user(null), await user(ago(1829))]
    await user(ago(1831))
    await sweep(database(), NOW)
    assert.deepEqual(await database().query('SELECT webhook_id FROM webhooks'), [{ webhook_id: '1' }])
    assert.deepEqual(await database().query('SELECT bytes FROM webhook_usage'), [{ bytes: 1028n }])
    const left = await database().query<{ user_id: string }>('SELECT user_id FROM verifications')
    assert.deepEqual(left.map(({ user_id }) => user_id).sort(), kept.sort())
  })

  it("keeps an existing user's verifications for five years, and the last successful one longer", async () => {
    const ago = (days: number) => new Date(NOW.getTime() - days * DAY_MS)
    await database().query(
      `INSERT INTO users (id, name, email, email_key, role, created_at, updated_at)
       SELECT gen_random_uuid(), name, name, name, 'user', $1, $1 FROM unnest(ARRAY['anew', 'before', 'never']) AS name`,
      [ago(4000)],
    )
    const verification = (user: string, status: string, at: Date) =>
      database().query(
        `INSERT INTO verifications (id, user_id, status, created_at)
         SELECT gen_random_uuid(), id, $2, $3 FROM users WHERE email = $1`,
        [user, status, at],
      )
    // `anew` was verified again lately, `before` only long ago, `never` not at all.
    await verification('anew', 'verified', ago(3000))
    await verification('anew', 'verified', ago(10))
    for (const user of ['before', 'never']) {
      await verification(user, 'rejected', ago(2000))
      await verification(user, 'rejected', ago(1829))
    }
    for (const at of [ago(3000), ago(2500), ago(2500)]) await verification('before', 'verified', at)
    await sweep(database(), NOW)
    const left = await database().query(
      `SELECT email, status, verifications.created_at FROM verifications JOIN users ON users.id = user_id
        WHERE email IN ('anew', 'before', 'never') ORDER BY email, verifications.created_at`,
    )
    assert.deepEqual(left, [
      { email: 'anew', status: 'verified', created_at: ago(10) },
      { email: 'before', status: 'verified', created_at: ago(2500) },
      { email: 'before', status: 'rejected', created_at: ago(1829) },
      { email: 'never', status: 'rejected', created_at: ago(1829) },
    ])
  })

  it('keeps webhooks for as long as the operator says', async () => {
    const ago = (days: number) => new Date(NOW.getTime() - days * DAY_MS)
    await database().query(
      `INSERT INTO webhooks (id, client, source, webhook_id, body, received_at)
       SELECT gen_random_uuid(), 'years', 'billing', n::text, '', CASE n WHEN 1 THEN $1::timestamptz ELSE $2 END
         FROM generate_series(1, 2) AS n`,
      [ago(3652.9), ago(3653)],
    )
    await sweep(database(), NOW, 3653 * DAY_MS)
    const left = await database().query("SELECT webhook_id FROM webhooks WHERE client = 'years'")
    assert.deepEqual(left, [{ webhook_id: '1' }])
    await database().query('DELETE FROM webhooks')
  })

  it('deletes a backlog in steps, and what is gone stays gone when a later step fails', async () => {
    await database().query('CREATE TABLE steps (transaction xid8)')
    await database().query(`CREATE FUNCTION note_step() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO steps VALUES (pg_current_xact_id()); RETURN NULL; END $$`)
    await database().query(
      'CREATE TRIGGER note AFTER DELETE ON idempotency_keys EXECUTE FUNCTION note_step()',
    )
    await database().query(
      `INSERT INTO idempotency_keys (caller, path, key, fingerprint, status, body, created_at)
       SELECT 'caller', '/path', n::text, '', 201, '', $1 FROM generate_series(1, $2) AS n`,
      [expired, 2 * STEP_ROWS + 1],
    )
    await database().query('ALTER TABLE refresh_tokens RENAME TO refresh_tokens_gone')
    try {
      await assert.rejects(sweep(database(), NOW), { code: '42P01' })
    } finally {
      await database().query('ALTER TABLE refresh_tokens_gone RENAME TO refresh_tokens')
      await database().query('DROP TRIGGER note ON idempotency_keys')
    }
    assert.deepEqual(await keptKeys(database()), [])
    const steps = await database().query('SELECT DISTINCT transaction FROM steps')
    assert.ok(steps.length >= 3, `${steps.length}`)
  })

  it('goes by the earlier of two clocks: of this process and of the database', async () => {
    const [behind, ahead] = [new Date(0), new Date('9999-01-01T00:00:00Z')]
    assert.deepEqual(await earlierTime(database(), behind), behind)
    assert.ok((await earlierTime(database(), ahead)) < ahead)
  })
})

onPostgres('housekeeping of several backends', (database) => {
  it('is done by one backend at a time, and the others leave it alone', async () => {
    await keep(database(), 'expired', expired)
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const { promise: holding, resolve: holds } = Promise.withResolvers<void>()
    const holder = database().transaction(async (transaction) => {
      await transaction.query("SELECT 1 FROM idempotency_keys WHERE key = 'expired' FOR UPDATE")
      holds()
      await held
    })
    await holding
    const first = sweep(database(), NOW)
    while ((await waitingSweeps(database())) === 0) await new Promise(setImmediate)
    assert.equal(await sweep(database(), NOW), false)
    release()
    await holder
    assert.equal(await first, true)
    assert.deepEqual(await keptKeys(database()), [])
    assert.equal(await sweep(database(), NOW), true, 'the next one may')
  })
})
