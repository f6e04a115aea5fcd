import assert from 'node:assert/strict'
import { it } from 'node:test'
import { seedDemoUsers } from './demo-users.ts'
import { onEachDatabase } from './testing/databases.ts'
import { changeUser, deleteUser, listUsers } from './user-store.ts'

onEachDatabase('demo users', (database) => {
  const now = new Date('2026-03-01T12:00:00Z')
  const seeded = async () => {
    await seedDemoUsers(database(), now)
    return await listUsers(database(), 10)
  }

  it('are added in order, once, also by backends that start together', async () => {
    await Promise.all([seeded(), seeded(), seeded()])
    const emails = (await seeded()).map(({ email }) => email)
    assert.deepEqual(emails, ['operator@example.com', 'alice@example.com', 'bob@example.com'])
  })

  it('do not come back at the next start after one was renamed or deleted', async () => {
    const [operator, alice, bob] = await seeded()
    const renamed = { email: 'olivia@bank.example', signInEmail: 'olivia@bank.example' }
    await changeUser(database(), { id: String(operator?.id) }, renamed, now)
    await deleteUser(database(), { id: String(alice?.id) }, now)
    assert.deepEqual(
      (await seeded()).map(({ email }) => email),
      [renamed.email, bob?.email],
    )
  })
})
