import { v7 as uuid } from 'uuid'
import type { Queryable } from '../database/database.ts'

/**
 * The double-entry ledger. A movement is a row of `transfers` with two entries that sum to zero. An account's balance
 * is the sum of its entries. Opening balances come from the currency's equity account, closing balances return to it.
 * Functions that change something need the caller's serialisable transaction.
 */

type Account = { readonly id: string; readonly currency: string; readonly balanceMinor: bigint }

/** The currency of new accounts. */
const HOME_CURRENCY = 'EUR'

export async function accountOf(database: Queryable, userId: string): Promise<Account | undefined> {
  const [account] = await database.query<Account>(
    'SELECT id, currency, balance_minor AS "balanceMinor" FROM accounts WHERE owner_id = $1 AND closed_at IS NULL',
    [userId],
  )
  return account
}

/** Opens an empty account. Returns its id. */
export async function openAccount(transaction: Queryable, ownerId: string, now: Date): Promise<string> {
  const id = uuid()
  await transaction.query(
    "INSERT INTO accounts (id, kind, owner_id, currency, created_at) VALUES ($1, 'customer', $2, $3, $4)",
    [id, ownerId, HOME_CURRENCY, now],
  )
  return id
}

export async function fundAccount(
  transaction: Queryable,
  account: { readonly id: string; readonly amountMinor: bigint },
  now: Date,
): Promise<void> {
  await move(transaction, {
    kind: 'opening',
    fromAccountId: await equityAccount(transaction, HOME_CURRENCY, now),
    toAccountId: account.id,
    amountMinor: account.amountMinor,
    currency: HOME_CURRENCY,
    createdAt: now,
  })
}

/** Closes a deleted user's account and returns its balance to equity. */
export async function closeAccount(transaction: Queryable, ownerId: string, now: Date): Promise<void> {
  const account = await accountOf(transaction, ownerId)
  if (account === undefined) return
  const { id, currency, balanceMinor: amountMinor } = account
  if (amountMinor > 0n) {
    const toAccountId = await equityAccount(transaction, currency, now)
    const movement = { fromAccountId: id, toAccountId, amountMinor, currency, createdAt: now }
    await move(transaction, { kind: 'closing', ...movement })
  }
  await transaction.query('UPDATE accounts SET closed_at = $2 WHERE id = $1', [id, now])
}

export interface TransferOrder {
  readonly userId: string
  readonly toAccountId: string
  readonly amountMinor: bigint
  readonly currency: string
  readonly reference?: string | undefined
}

interface Transfer extends Omit<TransferOrder, 'userId'> {
  readonly id: string
  readonly fromAccountId: string
  readonly createdAt: Date
}

type TransferRefusal =
  | 'no_account'
  | 'same_account'
  | 'unknown_destination'
  | 'currency_mismatch'
  | 'insufficient_funds'

/** Moves money from the user's account, or changes nothing and returns why. No account goes below zero. */
export async function transfer(
  transaction: Queryable,
  { userId, ...order }: TransferOrder,
  now: Date,
): Promise<Transfer | TransferRefusal> {
  // Locks both rows in a fixed order, so that opposite transfers wait instead of colliding.
  const accounts = await transaction.query<Account & { ownerId: string }>(
    `SELECT id, owner_id AS "ownerId", currency, balance_minor AS "balanceMinor" FROM accounts
      WHERE (owner_id = $1 OR id = $2) AND kind = 'customer' AND closed_at IS NULL ORDER BY id FOR UPDATE`,
    [userId, order.toAccountId],
  )
  const source = accounts.find(({ ownerId }) => ownerId === userId)
  const destination = accounts.find(({ id }) => id === order.toAccountId)
  if (source === undefined) return 'no_account'
  if (destination === undefined) return 'unknown_destination'
  if (source.id === destination.id) return 'same_account'
  if (source.currency !== order.currency || destination.currency !== order.currency)
    return 'currency_mismatch'
  if (source.balanceMinor < order.amountMinor) return 'insufficient_funds'
  return move(transaction, { kind: 'transfer', ...order, fromAccountId: source.id, createdAt: now })
}

async function move(
  transaction: Queryable,
  { kind, ...movement }: Omit<Transfer, 'id'> & { readonly kind: 'transfer' | 'opening' | 'closing' },
): Promise<Transfer> {
  const id = uuid()
  const { fromAccountId, toAccountId, amountMinor, currency, reference, createdAt } = movement
  await transaction.query(
    `INSERT INTO transfers (id, kind, from_account_id, to_account_id, amount_minor, currency, reference, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [id, kind, fromAccountId, toAccountId, amountMinor, currency, reference ?? null, createdAt],
  )
  await transaction.query(
    'INSERT INTO ledger_entries (transfer_id, account_id, amount_minor) VALUES ($1, $2, -$4::bigint), ($1, $3, $4)',
    [id, fromAccountId, toAccountId, amountMinor],
  )
  await transaction.query(
    `UPDATE accounts SET balance_minor = balance_minor + CASE WHEN id = $1 THEN -$3::bigint ELSE $3 END
      WHERE id IN ($1, $2)`,
    [fromAccountId, toAccountId, amountMinor],
  )
  return { id, ...movement }
}

async function equityAccount(transaction: Queryable, currency: string, now: Date): Promise<string> {
  const [existing] = await transaction.query<{ id: string }>(
    "SELECT id FROM accounts WHERE kind = 'equity' AND currency = $1",
    [currency],
  )
  if (existing !== undefined) return existing.id
  const id = uuid()
  await transaction.query(
    "INSERT INTO accounts (id, kind, currency, created_at) VALUES ($1, 'equity', $2, $3)",
    [id, currency, now],
  )
  return id
}
