import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import fc from 'fast-check'
import { onEachDatabase } from '../testing/databases.ts'
import { startTestService, type TestService, type TestUser } from '../testing/service.ts'
import { closeAccount, transfer } from './ledger.ts'

onEachDatabase('the ledger', (database) => {
  let service: TestService
  before(async () => {
    service = await startTestService(database())
  })

  const accounts = async () =>
    database().query<{ id: string; kind: string; balance: bigint; entries: bigint }>(
      `SELECT id, kind, balance_minor AS balance, coalesce(sum(amount_minor), 0)::bigint AS entries
         FROM accounts LEFT JOIN ledger_entries ON account_id = accounts.id GROUP BY accounts.id`,
    )

  async function assertBalanced(): Promise<void> {
    const all = await accounts()
    assert.equal(
      all.reduce((sum, account) => sum + account.entries, 0n),
      0n,
      'all entries sum to zero',
    )
    for (const account of all) {
      assert.equal(account.balance, account.entries, 'a balance is the sum of its entries')
      if (account.kind === 'customer') assert.ok(account.balance >= 0n, 'no customer is overdrawn')
    }
  }

  it('sums to zero, with nobody overdrawn, under concurrent random transfers', async () => {
    const users: TestUser[] = []
    for (const balanceMinor of [10_00n, 5_00n, 1n, 0n]) users.push(await service.addUser({ balanceMinor }))
    const total = 15_01n
    const order = fc.record({
      from: fc.nat({ max: users.length - 1 }),
      to: fc.nat({ max: users.length - 1 }),
      amountMinor: fc.bigInt({ min: 1n, max: 9_00n }),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(order, { minLength: 1, maxLength: 12 }), async (orders) => {
        await Promise.all(
          orders.map(({ from, to, amountMinor }) =>
            database().transaction((transaction) =>
              transfer(
                transaction,
                { userId: users[from]!.id, toAccountId: users[to]!.accountId, amountMinor, currency: 'EUR' },
                service.now(),
              ),
            ),
          ),
        )
        await assertBalanced()
        const all = await accounts()
        const own = all.filter((account) => users.some((user) => user.accountId === account.id))
        assert.equal(
          own.reduce((sum, account) => sum + account.balance, 0n),
          total,
          'money neither appears nor vanishes',
        )
      }),
      { numRuns: 25 },
    )
  })

  it('lets through exactly what an account can pay when many spend from it at once', async () => {
    const payer = await service.addUser({ balanceMinor: 5_00n })
    const payee = await service.addUser()
    const order = { userId: payer.id, toAccountId: payee.accountId, amountMinor: 1_00n, currency: 'EUR' }
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, () =>
        database().transaction((transaction) => transfer(transaction, order, service.now())),
      ),
    )
    assert.equal(outcomes.filter((outcome) => typeof outcome === 'object').length, 5)
    assert.equal(outcomes.filter((outcome) => outcome === 'insufficient_funds').length, 7)
    await assertBalanced()
  })

  it('carries out opposite transfers at once without a deadlock', async () => {
    const [left, right] = [
      await service.addUser({ balanceMinor: 10_00n }),
      await service.addUser({ balanceMinor: 10_00n }),
    ]
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) => {
        const [from, to] = index % 2 === 0 ? [left, right] : [right, left]
        const order = { userId: from.id, toAccountId: to.accountId, amountMinor: 1_00n, currency: 'EUR' }
        return database().transaction((transaction) => transfer(transaction, order, service.now()))
      }),
    )
    assert.ok(outcomes.every((outcome) => typeof outcome === 'object'))
    await assertBalanced()
  })

  it('pays the balance out and closes the account, and does nothing the second time', async () => {
    const user = await service.addUser({ balanceMinor: 3_21n })
    await database().transaction((transaction) => closeAccount(transaction, user.id, service.now()))
    await database().transaction((transaction) => closeAccount(transaction, user.id, service.now()))
    const order = { userId: user.id, toAccountId: user.accountId, amountMinor: 1n, currency: 'EUR' }
    const outcome = await database().transaction((transaction) => transfer(transaction, order, service.now()))
    assert.equal(outcome, 'no_account')
    await assertBalanced()
  })

  it('is guarded by the database itself against what a faulty program could do', async () => {
    const user = await service.addUser({ balanceMinor: 1_00n })
    const [made] = await database().query<{ id: string }>(
      'SELECT id FROM transfers WHERE to_account_id = $1',
      [user.accountId],
    )
    const other = await service.addUser()
    const faults: [string, unknown[]][] = [
      ['UPDATE accounts SET balance_minor = -1 WHERE id = $1', [user.accountId]],
      ['UPDATE ledger_entries SET amount_minor = 2 WHERE account_id = $1', [user.accountId]],
      ['DELETE FROM ledger_entries WHERE account_id = $1', [user.accountId]],
      ['UPDATE transfers SET amount_minor = 2 WHERE id = $1', [made?.id]],
      [
        'INSERT INTO ledger_entries (transfer_id, account_id, amount_minor) VALUES ($1, $2, 7)',
        [made?.id, other.accountId],
      ],
    ]
    for (const [sql, values] of faults) {
      // 23514: check violation.
      await assert.rejects(database().query(sql, values), { code: '23514' }, sql)
    }
    await assertBalanced()
  })
})
