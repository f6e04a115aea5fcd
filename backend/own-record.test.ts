import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { decodeJwt } from 'jose'
import { onEachDatabase } from './testing/databases.ts'
import { InterruptedDatabase } from './testing/interrupted-database.ts'
import { cheapHash } from './testing/password-hash.ts'
import { startTestService, type TestRequest, type TestService, type TestUser } from './testing/service.ts'

const PASSWORD = 'the present one'
const NEXT = 'another password'

onEachDatabase('what a user may do with its own record', (database) => {
  let service: TestService
  let passwordHash: string
  before(async () => {
    service = await startTestService(interrupted.around(database()))
    passwordHash = cheapHash(PASSWORD)
  })

  const interrupted = new InterruptedDatabase()
  const addUser = () => service.addUser({ passwordHash })
  const own = (user: TestUser, request: Omit<TestRequest, 'url'> = {}) =>
    service.send({ url: `/api/users/${user.id}`, as: user, ...request })
  const patch = (user: TestUser, payload: object, more: Partial<TestRequest> = {}) =>
    own(user, { method: 'PATCH', payload, ...more })
  const login = (email: string, password: string) =>
    service.send({ method: 'POST', url: '/api/login', payload: { email, password } })

  it('refuses the record to an OAuth token with other scopes', async () => {
    const user = await addUser()
    const scopes = ['', 'accounts:read', 'accounts:read transfers:write identity:verify', 'profile:writer']
    for (const scope of scopes) {
      const narrow = { client: 'mobile-app', scope }
      assert.equal((await own(user, narrow)).status, 403, scope)
      const takeover = { password: NEXT, currentPassword: PASSWORD }
      assert.equal((await patch(user, takeover, narrow)).status, 403, scope)
      const payload = { name: 'N', email: user.email }
      assert.equal((await own(user, { method: 'PUT', payload, ...narrow })).status, 403, scope)
      const leaving = { currentPassword: PASSWORD }
      assert.equal((await own(user, { method: 'DELETE', payload: leaving, ...narrow })).status, 403, scope)
    }
    assert.equal((await login(user.email, PASSWORD)).status, 200)
  })

  it('takes only the session of a login for the user in person', async () => {
    const user = await addUser()
    for (const more of [
      { session: '' },
      { session: 'xGt3FmJ0wYc5V5bJ0y8m9QzQ0bX8q1n2k3l4m5n6o7p' },
      { client: 'mobile-app', session: '01890a5d-ac96-774b-bcce-b302099a8057' },
      { headers: { 'x-auth-method': 'mtls' } },
    ]) {
      assert.equal((await own(user, more)).status, 403, JSON.stringify(more))
    }
  })

  it('lets an OAuth token with profile:write read and change it', async () => {
    const user = await addUser()
    const granted = { client: 'mobile-app', scope: 'profile:write' }
    assert.equal((await own(user, granted)).body.email, user.email)
    assert.equal((await patch(user, { name: 'New' }, granted)).body.name, 'New')
    assert.equal((await patch(user, { password: NEXT }, granted)).status, 403)
    assert.equal((await patch(user, { password: NEXT, currentPassword: PASSWORD }, granted)).status, 200)
    assert.equal((await own(await addUser(), { ...granted, as: user })).status, 403)
  })

  it('needs the present password to change password or address, or to delete the record', async () => {
    const user = await addUser()
    const changes: Pick<TestRequest, 'method' | 'payload'>[] = [
      { method: 'PATCH', payload: { password: NEXT } },
      { method: 'PATCH', payload: { email: 'new@example.com' } },
      { method: 'PUT', payload: { name: 'N', email: 'new@example.com' } },
      { method: 'DELETE' },
      { method: 'DELETE', payload: {} },
    ]
    for (const change of changes) {
      const without = await own(user, change)
      assert.deepEqual(
        [without.status, without.body.code],
        [403, 'password_required'],
        JSON.stringify(change),
      )
      assert.equal(without.body.errors[0].field, 'currentPassword')
      const payload = { ...(change.payload as object), currentPassword: 'not the one' }
      const wrong = await own(user, { ...change, payload })
      assert.deepEqual([wrong.status, wrong.body.code], [403, 'wrong_password'])
      service.advance(24 * 60 * 60 * 1000)
    }
    assert.equal((await own(user)).body.email, user.email)
    assert.equal((await login(user.email, PASSWORD)).status, 200)
  })

  it('needs no password when only the name changes, or when PUT repeats the address', async () => {
    const user = await addUser()
    assert.equal((await patch(user, { name: 'Other' })).status, 200)
    const payload = { name: 'Third', email: user.email }
    assert.equal((await own(user, { method: 'PUT', payload })).status, 200)
  })

  it('changes no address without the password, though another request changed it at the same moment', async () => {
    const user = await addUser()
    interrupted.after = {
      statement: /^SELECT id, name, email/,
      happens: async () => {
        const change = { email: 'moved@example.com', currentPassword: PASSWORD }
        assert.equal((await patch(user, change)).status, 200)
      },
    }
    const { status } = await own(user, { method: 'PUT', payload: { name: 'New', email: user.email } })
    assert.equal(status, 200)
    const { body } = await own(user)
    assert.deepEqual([body.name, body.email], ['New', 'moved@example.com'])
  })

  it("needs the password to move an operator's sign-in to the address of the record", async () => {
    const user = await addUser()
    const email = 'shown@example.com'
    const granted = { client: 'mobile-app', scope: 'profile:write' }
    assert.equal((await patch(user, { email, currentPassword: PASSWORD }, granted)).status, 200)
    assert.equal((await patch(user, { email }, { scope: 'users:admin' })).status, 200)
    assert.equal((await login(email, PASSWORD)).status, 401)
    assert.equal((await login(user.email, PASSWORD)).status, 200)
  })

  it('needs a field to change besides the present password', async () => {
    const user = await addUser()
    const { status, body } = await patch(user, { currentPassword: PASSWORD })
    assert.equal(status, 400)
    assert.equal(body.errors[0].field, 'body')
  })

  it('asks an operator for its own password too, and never for the password of another user', async () => {
    const [operator, user] = [await addUser(), await addUser()]
    const scope = 'users:admin'
    assert.equal((await patch(operator, { password: NEXT }, { scope })).status, 403)
    assert.equal((await patch(user, { password: NEXT }, { scope, as: operator })).status, 200)
    assert.equal((await login(user.email, NEXT)).status, 200)
    const machine = { url: `/api/users/${user.id}`, headers: { 'x-auth-client': 'hr' }, scope }
    assert.equal((await service.send({ ...machine, method: 'DELETE' })).status, 204)
  })

  it('counts wrong passwords with those of the sign-in, so that a stolen token guesses no faster', async () => {
    const user = await addUser()
    for (let guess = 0; guess < 5; guess++) {
      const { status } = await patch(user, { password: NEXT, currentPassword: `guess ${guess}` })
      assert.equal(status, 403)
    }
    const throttled = await patch(user, { password: NEXT, currentPassword: PASSWORD })
    assert.deepEqual([throttled.status, throttled.body.code], [429, 'too_many_attempts'])
    assert.equal(throttled.headers['retry-after'], '1')
    assert.equal((await login(user.email, PASSWORD)).status, 429)
    service.advance(1000)
    assert.equal((await patch(user, { password: NEXT, currentPassword: PASSWORD })).status, 200)
  })

  it('does not tell who has an account: an address that is taken changes the record like any other', async () => {
    const [user, other] = [await addUser(), await addUser()]
    const outcomes: unknown[] = []
    for (const email of ['Free@example.com', other.email.toUpperCase()]) {
      const { status, body } = await patch(user, { email, currentPassword: PASSWORD })
      assert.equal(body.email, email)
      assert.equal((await own(user)).body.email, email)
      const signIns = [user.email, email].map(async (name) => (await login(name, PASSWORD)).status)
      outcomes.push([status, await Promise.all(signIns)])
      await login(other.email, PASSWORD)
    }
    // Both users have the same address now. It still signs in the other user.
    assert.deepEqual(outcomes, [
      [200, [200, 401]],
      [200, [200, 200]],
    ])
    const { accessToken } = (await login(other.email, PASSWORD)).body
    assert.equal(decodeJwt(accessToken).sub, other.id)
    const put = { name: 'N', email: other.email, currentPassword: PASSWORD }
    assert.equal((await own(user, { method: 'PUT', payload: put })).status, 200)
  })

  it('moves the sign-in to a new address when an operator writes it, unless another user has it', async () => {
    const [operator, user, other] = [await addUser(), await addUser(), await addUser()]
    await patch(user, { email: 'moving@example.com', currentPassword: PASSWORD })
    const confirm = (email: string) => patch(user, { email }, { as: operator, scope: 'users:admin' })
    assert.equal((await confirm(other.email)).status, 409)
    assert.equal((await login('moving@example.com', PASSWORD)).status, 401)
    assert.equal((await confirm('moving@example.com')).status, 200)
    assert.equal((await login('moving@example.com', PASSWORD)).status, 200)
    assert.equal((await login(user.email, PASSWORD)).status, 401)
  })

  it('changes its address no faster than it could try passwords', async () => {
    const user = await addUser()
    const change = (n: number) => patch(user, { email: `${n}@example.com`, currentPassword: PASSWORD })
    for (let n = 0; n < 5; n++) assert.equal((await change(n)).status, 200)
    const sixth = await change(5)
    assert.deepEqual([sixth.status, sixth.headers['retry-after']], [429, '1'])
    assert.equal((await patch(user, { name: 'New' })).status, 200)
  })

  it('carries out only one of several simultaneous changes with the same password', async () => {
    const user = await addUser()
    const responses = await Promise.all(
      [1, 2, 3].map((n) => patch(user, { password: `${NEXT} ${n}`, currentPassword: PASSWORD })),
    )
    assert.deepEqual(responses.map((response) => response.status).sort(), [200, 403, 403])
  })
})
