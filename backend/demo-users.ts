import type { Database, Queryable } from './database/database.ts'
import { hashPassword } from './identity/passwords.ts'
import type { Role } from './identity/session-tokens.ts'
import { fundAccount } from './money/ledger.ts'
import { addUser } from './user-store.ts'

const PASSWORD = 'demo-password'
const OPENING_BALANCE_MINOR = 1_000_00n

const DEMO_USERS: readonly { readonly name: string; readonly email: string; readonly role: Role }[] = [
  { name: 'Olivia Operator', email: 'operator@example.com', role: 'operator' },
  { name: 'Alice Martin', email: 'alice@example.com', role: 'user' },
  { name: 'Bob Novak', email: 'bob@example.com', role: 'user' },
]

/** Adds the demo users to a database without users. A renamed or deleted one does not come back. */
export async function seedDemoUsers(database: Database, now: Date): Promise<void> {
  const hasUsers = async (queryable: Queryable) =>
    (await queryable.query('SELECT 1 AS one FROM users LIMIT 1')).length > 0
  if (await hasUsers(database)) return
  const passwordHash = await hashPassword(PASSWORD)
  await database.transaction(async (transaction) => {
    if (await hasUsers(transaction)) return
    // One by one, so that they are listed in this order.
    for (const user of DEMO_USERS) {
      const added = await addUser(transaction, { ...user, passwordHash }, now)
      if (added === 'email_taken') return
      await fundAccount(transaction, { id: added.accountId, amountMinor: OPENING_BALANCE_MINOR }, now)
    }
  })
}
