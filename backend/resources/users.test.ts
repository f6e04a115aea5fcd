import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import { onEachDatabase } from '../testing/databases.ts'
import { cheapHash } from '../testing/password-hash.ts'
import { startTestService, type TestRequest, type TestService, type TestUser } from '../testing/service.ts'

const UNKNOWN_ID = '01890a5d-ac96-774b-bcce-b302099a8057'

onEachDatabase('users', (database) => {
  let service: TestService
  let operator: TestUser
  before(async () => {
    service = await startTestService(database())
    operator = await service.addUser()
  })
  const asOperator = (request: TestRequest) =>
    service.send({ as: operator, scope: 'users:admin', ...request })
  const create = (payload: object) => asOperator({ method: 'POST', url: '/api/users', payload })
  const login = (email: string, password: string) =>
    service.send({ method: 'POST', url: '/api/login', payload: { email, password } })
  const faults = (body: { errors: { field: string; reason: string }[] }) =>
    Object.fromEntries(body.errors.map((fault) => [fault.field, fault.reason]))

  describe('POST /api/users', () => {
    it('adds a user and says where it is', async () => {
      const { status, body, headers } = await create({ name: 'Carol Díaz', email: 'carol@example.com' })
      assert.equal(status, 201)
      assert.deepEqual(Object.keys(body), ['id', 'name', 'email', 'createdAt', 'updatedAt'])
      assert.match(body.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)
      assert.equal(body.name, 'Carol Díaz')
      assert.equal(body.createdAt, service.now().toISOString())
      assert.equal(headers.location, `/api/users/${body.id}`)
      const read = await asOperator({ url: `/api/users/${body.id}` })
      assert.deepEqual(read.body, body)
    })

    it('gives the new user an empty EUR account', async () => {
      const { body } = await create({ name: 'Dora', email: 'dora@example.com' })
      const balance = await service.send({ url: '/api/balance', as: body })
      assert.equal(balance.status, 200)
      assert.equal(balance.body.balance, '0.00')
      assert.equal(balance.body.currency, 'EUR')
    })

    it('takes the name as nombre too', async () => {
      const { status, body } = await create({ nombre: 'Eva', email: 'eva@example.com' })
      assert.equal(status, 201)
      assert.equal(body.name, 'Eva')
      assert.equal(body.nombre, undefined)
    })

    it('refuses name and nombre together, and neither of them', async () => {
      for (const names of [{ name: 'A', nombre: 'A' }, {}]) {
        const { status, body } = await create({ ...names, email: 'x@example.com' })
        assert.equal(status, 400)
        assert.deepEqual(faults(body), { name: 'must be given once, as name or as nombre' })
      }
    })

    it('lets a user with a password log in, but not a user without one', async () => {
      await create({ name: 'Frida', email: 'frida@example.com', password: 'long enough' })
      assert.equal((await login('frida@example.com', 'long enough')).status, 200)
      await create({ name: 'Gina', email: 'gina@example.com' })
      assert.equal((await login('gina@example.com', 'long enough')).status, 401)
    })

    it('names each bad field', async () => {
      const { status, body } = await create({
        name: ' ',
        email: 'no address',
        password: 'short',
        role: 'operator',
      })
      assert.equal(status, 400)
      assert.equal(body.code, 'invalid_request')
      assert.deepEqual(Object.keys(faults(body)).sort(), ['email', 'name', 'password', 'role'])
    })

    it('refuses an address that another user has, whatever its capitals', async () => {
      await create({ name: 'Hana', email: 'hana@example.com' })
      const { status, body } = await create({ name: 'Other', email: 'HANA@example.com' })
      assert.equal(status, 409)
      assert.equal(body.code, 'email_taken')
    })

    it('lets exactly one of many concurrent requests have an address', async () => {
      const responses = await Promise.all(
        Array.from({ length: 8 }, () => create({ name: 'Ida', email: 'ida@example.com' })),
      )
      const statuses = responses.map((response) => response.status).sort()
      assert.deepEqual(statuses, [201, ...Array(7).fill(409)])
    })

    it('is for holders of users:admin only, users or machines', async () => {
      const request = {
        method: 'POST',
        url: '/api/users',
        payload: { name: 'J', email: 'j@example.com' },
      } as const
      assert.equal((await service.send(request)).status, 401)
      assert.equal((await service.send({ ...request, as: operator, scope: 'accounts:read' })).status, 403)
      const machine = { ...request, headers: { 'x-auth-client': 'hr' }, scope: 'accounts:read users:admin' }
      assert.equal((await service.send(machine)).status, 201)
    })
  })

  describe('GET /api/users', () => {
    it('responds with a plain array, oldest first, and links page after page to the end', async () => {
      const seen: string[] = []
      let url: string | undefined = '/api/users?limit=3'
      while (url !== undefined) {
        const { status, body, headers }: Awaited<ReturnType<typeof asOperator>> = await asOperator({ url })
        assert.equal(status, 200)
        assert.ok(body.length <= 3)
        seen.push(...body.map((user: { id: string }) => user.id))
        url = /^<([^>]+)>; rel="next"$/.exec(String(headers.link ?? ''))?.[1]
      }
      const rows = await database().query<{ id: string }>(
        'SELECT id FROM users WHERE deleted_at IS NULL ORDER BY id',
      )
      assert.deepEqual(
        seen,
        rows.map((row) => row.id),
      )
    })

    it('refuses limits out of range, positions that are no id, and unknown parameters', async () => {
      for (const query of ['limit=0', 'limit=101', 'limit=ten', 'limit=1&limit=2', 'after=x', 'page=2']) {
        const { status, body } = await asOperator({ url: `/api/users?${query}` })
        assert.equal(status, 400, query)
        assert.equal(body.errors[0].field, query.split('=')[0])
      }
    })

    it('is for holders of users:admin only', async () => {
      assert.equal((await service.send({ url: '/api/users' })).status, 401)
      assert.equal((await service.send({ url: '/api/users', as: operator })).status, 403)
    })
  })

  describe('/api/users/{id}', () => {
    it('shows users their own record, and nobody the record of another', async () => {
      const user = await service.addUser()
      assert.equal((await service.send({ url: `/api/users/${user.id}`, as: user })).body.email, user.email)
      for (const id of [operator.id, UNKNOWN_ID]) {
        const { status } = await service.send({ url: `/api/users/${id}`, as: user })
        assert.equal(status, 403, 'the same whether or not there is such a user')
      }
      assert.equal((await service.send({ url: `/api/users/${user.id}` })).status, 401)
    })

    it('tells holders of users:admin that there is no such user', async () => {
      for (const method of ['GET', 'DELETE'] as const) {
        const unknown = await asOperator({ method, url: `/api/users/${UNKNOWN_ID}` })
        assert.deepEqual([unknown.status, unknown.body.code], [404, 'not_found'])
        for (const id of ['no-id', "'; DROP TABLE users; --", UNKNOWN_ID.toUpperCase()]) {
          const { status, body } = await asOperator({ method, url: `/api/users/${encodeURIComponent(id)}` })
          assert.deepEqual([status, body.errors?.[0]?.field], [400, 'id'])
        }
      }
      const payload = { name: 'N', email: 'n@example.com' }
      assert.equal(
        (await asOperator({ method: 'PUT', url: `/api/users/${UNKNOWN_ID}`, payload })).status,
        404,
      )
    })

    it('replaces name and address with PUT, which needs both', async () => {
      const user = await service.addUser()
      service.advance(1000)
      const url = `/api/users/${user.id}`
      const payload = { nombre: 'New Name', email: `new-${user.email}` }
      const { status, body } = await asOperator({ method: 'PUT', url, payload })
      assert.equal(status, 200)
      assert.equal(body.name, 'New Name')
      assert.equal(body.email, `new-${user.email}`)
      assert.equal(body.updatedAt, service.now().toISOString())
      assert.notEqual(body.createdAt, body.updatedAt)
      for (const partial of [
        { name: 'N' },
        { email: 'n@example.com' },
        { ...payload, password: 'long enough' },
      ]) {
        assert.equal((await asOperator({ method: 'PUT', url, payload: partial })).status, 400)
      }
    })

    it('changes with PATCH only what is given, and needs at least one field', async () => {
      const user = await service.addUser({ name: 'Before' })
      const url = `/api/users/${user.id}`
      const { status, body } = await service.send({
        method: 'PATCH',
        url,
        as: user,
        payload: { name: 'After' },
      })
      assert.equal(status, 200)
      assert.equal(body.name, 'After')
      assert.equal(body.email, user.email)
      for (const payload of [{}, { name: 'A', nombre: 'A' }, { id: UNKNOWN_ID }, { name: 7 }]) {
        assert.equal((await service.send({ method: 'PATCH', url, as: user, payload })).status, 400)
      }
    })

    it("refuses another user's address, and accepts the user's own one again", async () => {
      const [user, other] = [await service.addUser(), await service.addUser()]
      const url = `/api/users/${user.id}`
      const change = (email: string) => asOperator({ method: 'PATCH', url, payload: { email } })
      assert.equal((await change(other.email.toUpperCase())).status, 409)
      assert.equal((await change(user.email.toUpperCase())).status, 200)
    })

    it('lets exactly one of many concurrent changes have an address', async () => {
      const users = await Promise.all(Array.from({ length: 5 }, () => service.addUser()))
      const responses = await Promise.all(
        users.map((user) =>
          asOperator({
            method: 'PATCH',
            url: `/api/users/${user.id}`,
            payload: { email: 'wanted@example.com' },
          }),
        ),
      )
      const statuses = responses.map((response) => response.status).sort()
      assert.deepEqual(statuses, [200, 409, 409, 409, 409])
    })

    it('ends every other session when the password changes', async () => {
      const user = await service.addUser({ passwordHash: cheapHash('old password') })
      const [here, elsewhere] = [
        await login(user.email, 'old password'),
        await login(user.email, 'old password'),
      ]
      const sessionOf = (response: typeof here) => String(decodeJwt(response.body.accessToken).sid)
      const { status, headers } = await service.send({
        method: 'PATCH',
        url: `/api/users/${user.id}`,
        as: user,
        session: sessionOf(here),
        payload: { password: 'new password', currentPassword: 'old password' },
      })
      assert.equal(status, 200)
      assert.equal(headers['x-revoke-session'], sessionOf(elsewhere))
      const refresh = (response: typeof here) =>
        service.send({
          method: 'POST',
          url: '/api/session/refresh',
          payload: { refreshToken: response.body.refreshToken },
        })
      assert.equal((await refresh(elsewhere)).status, 401)
      assert.equal((await refresh(here)).status, 200)
      assert.equal((await login(user.email, 'old password')).status, 401)
      assert.equal((await login(user.email, 'new password')).status, 200)
    })
  })

  describe('DELETE /api/users/{id}', () => {
    it('erases the person, pays out and closes the account, and ends the sessions', async () => {
      const passwordHash = cheapHash('password')
      const user = await service.addUser({ passwordHash, balanceMinor: 25_00n })
      const [first, second] = [await login(user.email, 'password'), await login(user.email, 'password')]
      const url = `/api/users/${user.id}`
      const payload = { currentPassword: 'password' }
      const { status, text, headers } = await service.send({ method: 'DELETE', url, as: user, payload })
      assert.equal(status, 204)
      assert.equal(text, '')
      const sessions = [first, second].map((response) => String(decodeJwt(response.body.accessToken).sid))
      assert.deepEqual(String(headers['x-revoke-session']).split(', '), sessions.sort())

      assert.equal((await asOperator({ url })).status, 404)
      assert.equal((await asOperator({ method: 'DELETE', url })).status, 404)
      assert.equal((await login(user.email, 'password')).status, 401)
      const { refreshToken } = first.body
      const refreshed = { method: 'POST', url: '/api/session/refresh', payload: { refreshToken } } as const
      assert.equal((await service.send(refreshed)).status, 401)
      assert.equal((await service.send({ url: '/api/balance', as: user })).status, 401)
      const [row] = await database().query(
        'SELECT name, email, email_key, password_hash FROM users WHERE id = $1',
        [user.id],
      )
      assert.deepEqual(row, { name: null, email: null, email_key: null, password_hash: null })
      const [account] = await database().query('SELECT balance_minor FROM accounts WHERE id = $1', [
        user.accountId,
      ])
      assert.equal(account?.balance_minor, 0n)
      const [ledger] = await database().query('SELECT sum(amount_minor)::bigint AS sum FROM ledger_entries')
      assert.equal(ledger?.sum, 0n)
    })

    it('frees the address for somebody else, and takes no money any more', async () => {
      const [leaving, payer] = [await service.addUser(), await service.addUser({ balanceMinor: 10_00n })]
      await asOperator({ method: 'DELETE', url: `/api/users/${leaving.id}` })
      assert.equal((await create({ name: 'Next', email: leaving.email })).status, 201)
      const payload = { toAccountId: leaving.accountId, amount: '1.00', currency: 'EUR' }
      const transfer = await service.send({ method: 'POST', url: '/api/transfer', as: payer, payload })
      assert.equal(transfer.body.code, 'unknown_destination')
    })

    it('names only sessions whose access tokens may still be in force', async () => {
      const user = await service.addUser({ passwordHash: cheapHash('password') })
      await login(user.email, 'password')
      service.advance(660_001)
      const { headers } = await asOperator({ method: 'DELETE', url: `/api/users/${user.id}` })
      assert.equal(headers['x-revoke-session'], undefined)
    })

    it('names a session whose token has expired here, but not by a clock that is behind', async () => {
      const user = await service.addUser({ passwordHash: cheapHash('password') })
      const { body } = await login(user.email, 'password')
      service.advance(659_000)
      const { headers } = await asOperator({ method: 'DELETE', url: `/api/users/${user.id}` })
      assert.equal(headers['x-revoke-session'], decodeJwt(body.accessToken).sid)
    })
  })
})
