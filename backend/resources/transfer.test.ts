import assert from 'node:assert/strict'
import { before, beforeEach, describe, it } from 'node:test'
import { onEachDatabase } from '../testing/databases.ts'
import { startTestService, type TestRequest, type TestService, type TestUser } from '../testing/service.ts'

const UNKNOWN_ID = '01890a5d-ac96-774b-bcce-b302099a8057'

onEachDatabase('POST /api/transfer', (database) => {
  let service: TestService
  let payer: TestUser
  let payee: TestUser
  before(async () => {
    service = await startTestService(database())
  })
  beforeEach(async () => {
    payer = await service.addUser({ balanceMinor: 100_00n })
    payee = await service.addUser()
  })

  const transfer = (change: object = {}, request: Partial<TestRequest> = {}) =>
    service.send({
      method: 'POST',
      url: '/api/transfer',
      as: payer,
      payload: { toAccountId: payee.accountId, amount: '12.50', currency: 'EUR', ...change },
      ...request,
    })
  const withKey = (key: string, change: object = {}, request: Partial<TestRequest> = {}) =>
    transfer(change, { ...request, headers: { 'idempotency-key': key } })
  const balance = async (user: TestUser) =>
    (await service.send({ url: '/api/balance', as: user })).body.balance

  it('books the amount on both accounts', async () => {
    const { status, body } = await transfer({ reference: 'Invoice 118' })
    assert.equal(status, 201)
    assert.match(body.transferId, /^[0-9a-f-]{36}$/)
    assert.deepEqual(body, {
      transferId: body.transferId,
      fromAccountId: payer.accountId,
      toAccountId: payee.accountId,
      amount: '12.50',
      currency: 'EUR',
      status: 'completed',
      createdAt: service.now().toISOString(),
      reference: 'Invoice 118',
    })
    assert.equal(await balance(payer), '87.50')
    assert.equal(await balance(payee), '12.50')
  })

  it('leaves the reference out of the response when there is none', async () => {
    assert.equal('reference' in (await transfer()).body, false)
  })

  it('spends the last cent but not one more', async () => {
    assert.equal((await transfer({ amount: '100.01' })).body.code, 'insufficient_funds')
    assert.equal((await transfer({ amount: '100.00' })).status, 201)
    assert.equal((await transfer({ amount: '0.01' })).status, 422)
    assert.equal(await balance(payer), '0.00')
  })

  it('refuses destinations it cannot reach, with 422 and nothing changed', async () => {
    const codes = async (change: object) => {
      const { status, body } = await transfer(change)
      assert.equal(status, 422)
      return body.code
    }
    assert.equal(await codes({ toAccountId: UNKNOWN_ID }), 'unknown_destination')
    assert.equal(await codes({ toAccountId: payer.accountId }), 'same_account')
    assert.equal(await codes({ currency: 'USD' }), 'currency_mismatch')
    assert.equal(await balance(payer), '100.00')
  })

  it('never pays into the equity account of the service', async () => {
    const [equity] = await database().query<{ id: string }>("SELECT id FROM accounts WHERE kind = 'equity'")
    assert.equal((await transfer({ toAccountId: equity?.id })).body.code, 'unknown_destination')
  })

  it('takes account ids in capitals', async () => {
    assert.equal((await transfer({ toAccountId: payee.accountId.toUpperCase() })).status, 201)
  })

  it('refuses what is no amount, naming the field', async () => {
    const amounts = [
      '0',
      '0.00',
      '-1',
      '+1',
      '1.234',
      '01',
      '1.',
      '.5',
      '1e3',
      '1,5',
      ' 1',
      '',
      'NaN',
      '9999999999999',
    ]
    for (const amount of [...amounts, 12.5, null, ['1']]) {
      const { status, body } = await transfer({ amount })
      assert.equal(status, 400, String(amount))
      assert.equal(body.errors[0].field, 'amount')
    }
  })

  it('takes fewer decimals than the currency has', async () => {
    assert.equal((await transfer({ amount: '12.5' })).body.amount, '12.50')
    assert.equal((await transfer({ amount: '12' })).body.amount, '12.00')
  })

  it('counts the decimals of the currency, not always two', async () => {
    assert.equal((await transfer({ amount: '1.5', currency: 'JPY' })).status, 400)
    assert.equal((await transfer({ amount: '1.555', currency: 'BHD' })).body.code, 'currency_mismatch')
  })

  it('finds no fault with an amount when only the currency is missing', async () => {
    const { status, body } = await transfer({ currency: undefined })
    assert.equal(status, 400)
    assert.deepEqual(body.errors, [{ field: 'currency', reason: 'is required' }])
  })

  it('refuses other bad fields by name', async () => {
    const bad = [
      { currency: 'eur' },
      { currency: 'ABC' },
      { currency: 'XXX' },
      { toAccountId: 'x' },
      { toAccountId: `urn:uuid:${UNKNOWN_ID}` },
      { reference: '' },
      { reference: 'two\nlines' },
      { reference: 'x'.repeat(141) },
      { fromAccountId: UNKNOWN_ID },
    ]
    for (const change of bad) {
      const { status, body } = await transfer(change)
      assert.equal(status, 400, JSON.stringify(change))
      assert.equal(body.errors[0].field, Object.keys(change)[0])
    }
  })

  it('needs a user', async () => {
    const machine = await service.send({
      method: 'POST',
      url: '/api/transfer',
      headers: { 'x-auth-client': 'bank-b' },
      payload: { toAccountId: payee.accountId, amount: '1', currency: 'EUR' },
    })
    assert.equal(machine.status, 401)
    assert.equal((await transfer({}, { as: { id: 'a-subject-of-another-issuer' } })).status, 401)
    assert.equal((await transfer({}, { as: { id: UNKNOWN_ID } })).status, 401)
  })

  describe('with an Idempotency-Key', () => {
    it('transfers once and replays the first response to the byte', async () => {
      const first = await withKey('"once"')
      const second = await withKey('"once"')
      assert.equal(first.status, 201)
      assert.equal(first.headers['idempotency-replayed'], undefined)
      assert.equal(second.status, 201)
      assert.equal(second.headers['idempotency-replayed'], 'true')
      assert.equal(second.text, first.text)
      assert.equal(second.headers['content-type'], first.headers['content-type'])
      assert.equal(await balance(payer), '87.50')
    })

    it('takes the key with and without quotes as the same key', async () => {
      const first = await withKey('"8e03978e-40d5"')
      const second = await withKey('8e03978e-40d5')
      assert.equal(second.body.transferId, first.body.transferId)
    })

    it('replays a refusal too, though it would succeed by now', async () => {
      const refused = await withKey('later', { amount: '100.50' })
      assert.equal(refused.status, 422)
      const donor = await service.addUser({ balanceMinor: 50_00n })
      await transfer({ toAccountId: payer.accountId, amount: '50' }, { as: donor })
      const replayed = await withKey('later', { amount: '100.50' })
      assert.equal(replayed.status, 422)
      assert.equal(replayed.headers['idempotency-replayed'], 'true')
      assert.equal(replayed.headers['content-type'], 'application/problem+json')
      assert.equal(replayed.text, refused.text)
    })

    it('does not keep the refusal of a request that was not valid', async () => {
      assert.equal((await withKey('typo', { amount: '1.234' })).status, 400)
      assert.equal((await withKey('typo', { amount: '1.23' })).status, 201)
    })

    it('refuses the key with another payload, and knows the same payload in another spelling', async () => {
      await withKey('payload')
      for (const change of [{ amount: '12.51' }, { reference: 'x' }, { toAccountId: UNKNOWN_ID }]) {
        const { status, body } = await withKey('payload', change)
        assert.equal(status, 422)
        assert.equal(body.code, 'idempotency_key_reused')
      }
      assert.equal((await withKey('payload', { amount: '12.5' })).status, 201)
    })

    it('keeps the keys of different callers apart', async () => {
      const other = await service.addUser({ balanceMinor: 20_00n })
      const mine = await withKey('shared')
      const theirs = await withKey('shared', {}, { as: other })
      assert.equal(theirs.status, 201)
      assert.notEqual(theirs.body.transferId, mine.body.transferId)
    })

    it('transfers once when the same request arrives many times at once', async () => {
      const responses = await Promise.all(Array.from({ length: 10 }, () => withKey('storm')))
      const statuses = new Set(responses.map((response) => response.status))
      assert.ok(statuses.has(201))
      assert.deepEqual(
        [...statuses].filter((status) => status !== 201 && status !== 409),
        [],
      )
      assert.equal(await balance(payer), '87.50')
      assert.equal((await withKey('storm')).status, 201, 'the key is not left taken')
    })

    it('leaves the key free when the transaction fails', async () => {
      await database().query(
        "ALTER TABLE transfers ADD CONSTRAINT broken CHECK (reference <> 'break') NOT VALID",
      )
      try {
        const failed = await withKey('crash', { reference: 'break' })
        assert.equal(failed.status, 500)
      } finally {
        await database().query('ALTER TABLE transfers DROP CONSTRAINT broken')
      }
      assert.equal(await balance(payer), '100.00')
      const retried = await withKey('crash', { reference: 'break' })
      assert.equal(retried.status, 201)
      assert.equal(retried.headers['idempotency-replayed'], undefined)
    })

    /** Makes kept responses older, because a test cannot move the clock of the database. */
    const age = (interval: string) =>
      database().query(`UPDATE idempotency_keys SET created_at = created_at - interval '${interval}'`)

    it('forgets a response after 24 hours', async () => {
      const first = await withKey('old')
      await age('23 hours')
      assert.equal((await withKey('old')).body.transferId, first.body.transferId)
      await age('1 hour')
      const second = await withKey('old', { amount: '1' })
      assert.equal(second.status, 201)
      assert.notEqual(second.body.transferId, first.body.transferId)
      assert.equal(
        (await withKey('old', { amount: '1' })).text,
        second.text,
        'the second is kept in its place',
      )
    })

    it("replays a response whatever the backend's clock says", async () => {
      const first = await withKey('clocks')
      const clock = () => new Date(service.now().getTime() + 25 * 60 * 60 * 1000)
      const ahead = await startTestService(database(), { clock })
      const again = await ahead.send({
        method: 'POST',
        url: '/api/transfer',
        as: payer,
        payload: { toAccountId: payee.accountId, amount: '12.50', currency: 'EUR' },
        headers: { 'idempotency-key': 'clocks' },
      })
      assert.equal(again.text, first.text)
      assert.equal(await balance(payer), '87.50')
    })

    it('refuses keys that are empty, too long, or no key', async () => {
      const long = 'x'.repeat(256)
      const bad = ['', '""', 'two, keys', '"open', '"a"b"', '"a\\b"', '"a"; p=1', 'sp ace', '"\u00e9"']
      for (const key of [...bad, long, `"${long}"`]) {
        const { status, body } = await withKey(key)
        assert.equal(status, 400, key)
        assert.equal(body.errors[0].field, 'idempotency-key')
      }
      assert.equal((await withKey('x'.repeat(255))).status, 201)
      assert.equal((await withKey(`"${'\\"'.repeat(255)}"`)).status, 201, 'counted without escapes')
    })
  })
})
