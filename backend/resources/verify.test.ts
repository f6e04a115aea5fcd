import assert from 'node:assert/strict'
import { before, it } from 'node:test'
import { onEachDatabase } from '../testing/databases.ts'
import { startTestService, type TestService, type TestUser } from '../testing/service.ts'
import { printMrz, SPECIMENS } from '../testing/specimens.ts'

const DATA = {
  number: 'L898902C3',
  birthDate: '740812',
  expiryDate: '301231',
  sex: 'F',
  names: 'ERIKSSON<<ANNA<MARIA',
  optional: '',
}

const ALL_HOLD = {
  format: true,
  documentNumber: true,
  birthDate: true,
  expiryDate: true,
  optionalData: true,
  composite: true,
  notExpired: true,
  nameMatches: true,
}

onEachDatabase('POST /api/verify', (database) => {
  let service: TestService
  let anna: TestUser
  before(async () => {
    service = await startTestService(database())
    anna = await service.addUser({ name: 'Anna María Eriksson' })
  })
  const verify = (mrz: unknown, as: { id: string } = anna) =>
    service.send({ method: 'POST', url: '/api/verify', as, payload: { mrz } })

  it("verifies the user's documents in force, of each of the three sizes", async () => {
    for (const kind of ['TD1', 'TD2', 'TD3'] as const) {
      const { status, body } = await verify(printMrz(kind, DATA))
      assert.equal(status, 200)
      assert.deepEqual(body, { verificationId: body.verificationId, status: 'verified', checks: ALL_HOLD })
      assert.match(body.verificationId, /^[0-9a-f-]{36}$/)
    }
  })

  it('rejects the specimens of ICAO Doc 9303 only because they expired in 2012', async () => {
    for (const mrz of Object.values(SPECIMENS)) {
      const { body } = await verify(mrz)
      assert.equal(body.status, 'rejected')
      assert.deepEqual(body.checks, { ...ALL_HOLD, notExpired: false })
    }
  })

  it('rejects the document of somebody else', async () => {
    const { body } = await verify(printMrz('TD3', DATA), await service.addUser({ name: 'Bob Novak' }))
    assert.equal(body.status, 'rejected')
    assert.deepEqual(body.checks, { ...ALL_HOLD, nameMatches: false })
  })

  it('rejects dates that no calendar has, though their check digits agree', async () => {
    const birth = await verify(printMrz('TD3', { ...DATA, birthDate: '741301' }))
    assert.deepEqual(birth.body.checks, { ...ALL_HOLD, birthDate: false })
    const expiry = await verify(printMrz('TD3', { ...DATA, expiryDate: '300231' }))
    assert.deepEqual(expiry.body.checks, { ...ALL_HOLD, expiryDate: false, notExpired: false })
  })

  it('rejects a document with a wrong check digit', async () => {
    const [first = '', second = ''] = printMrz('TD3', DATA)
    const { body } = await verify([first, second.replace('L898902C3', 'L898902C4')])
    assert.deepEqual(body.checks, { ...ALL_HOLD, documentNumber: false, composite: false })
  })

  it('refuses what is no machine-readable zone, naming the line', async () => {
    const [first, second] = SPECIMENS.TD3
    const cases: [unknown, string][] = [
      [[first], 'mrz'],
      [[first, second.slice(1)], 'mrz'],
      [[first, second, second], 'mrz'],
      [[first, second.toLowerCase()], 'mrz[1]'],
      [[first, second.replace('<', ' ')], 'mrz[1]'],
      [[first, 7], 'mrz[1]'],
      [`${first}\n${second}`, 'mrz'],
      [undefined, 'mrz'],
    ]
    for (const [mrz, field] of cases) {
      const { status, body } = await verify(mrz)
      assert.equal(status, 400, JSON.stringify(mrz))
      assert.deepEqual(
        body.errors.map((fault: { field: string }) => fault.field),
        [field],
      )
    }
  })

  it('reads no more than a document can have', async () => {
    assert.equal((await verify(Array(2000).fill(''))).status, 413)
  })

  it('keeps the result and nothing of the document', async () => {
    const { body } = await verify(printMrz('TD3', DATA))
    const [row] = await database().query('SELECT * FROM verifications WHERE id = $1', [body.verificationId])
    assert.deepEqual(row, {
      id: body.verificationId,
      user_id: anna.id,
      status: 'verified',
      created_at: service.now(),
    })
  })

  it('needs a user who exists', async () => {
    const payload = { mrz: SPECIMENS.TD3 }
    assert.equal((await service.send({ method: 'POST', url: '/api/verify', payload })).status, 401)
    assert.equal((await verify(SPECIMENS.TD3, { id: '01890a5d-ac96-774b-bcce-b302099a8057' })).status, 401)
  })
})
