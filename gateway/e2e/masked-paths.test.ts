import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose'
import { countersign, PROGRAM } from '../cli/program.test-support.ts'
import { pseudonym } from '../edge/rules/policy/path-mask.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { ISSUER } from '../testing/test-issuer.ts'
import { call } from './client.ts'
import { ask } from './http2-client.ts'
import { ath, proof } from './proofs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'
import { openWire } from './wire.ts'

const IBAN = 'DE89370400440532013000'

describe('a masked parameter', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let config: object

  before(async () => {
    upstream = await startUpstream()
    config = {
      upstream: upstream.url,
      routes: [
        { path: '/accounts/{iban}', methods: ['GET'], auth: ['none'], mask: ['iban'] },
        { path: '/accounts/{iban}/days/{day}', auth: ['none'], mask: ['iban'] },
        { path: '/accounts/{iban}/secret', auth: ['bearer'], mask: ['iban'] },
        { path: '/open/*', auth: ['none'] },
        { path: '/mine', auth: ['bearer'] },
      ],
    }
    gateway = await startGateway({ config, env: { GATEWAY_LOG_LEVEL: 'debug' } })
  })
  after(async () => {
    await gateway.end()
    upstream.close()
  })

  it('reaches the service, but neither trail nor log, in any spelling, also when it is refused', async () => {
    const targets = [
      `/accounts/${IBAN}`,
      `/accounts/%44E89370400440532013000?x=${IBAN}`,
      `//accounts/./x/../${IBAN}/days/1`,
      `/accounts/${IBAN}/secret`,
      `/Accounts/${IBAN}`,
      `/accounts/${IBAN}/`,
      `/accounts/${IBAN}/unknown`,
      `/accounts%2F${IBAN}`,
      `/accounts/${IBAN};x=1`,
      `/accounts/${IBAN}/%zz`,
    ]
    const heads = [
      ...targets.map((target) => `GET ${target}`),
      `DELETE /accounts/${IBAN}`,
      `TRACE /accounts/${IBAN}`,
      `BREW /accounts/${IBAN}`,
      `CONNECT ${IBAN}:443`,
      `GET http://api.example/accounts/${IBAN}/more`,
    ]
    for (const head of heads) {
      const wire = await openWire(gateway.port)
      wire.send(`${head} HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n`)
      await wire.ended()
    }
    assert.ok(upstream.seen.some(({ url }) => url === `/accounts/${IBAN}`))
    await call(`${gateway.url}/open/7`)
    const trail = () => readFileSync(gateway.auditFile, 'utf8')
    await until(() => trail().includes('/open/7') || undefined)
    const key = readFileSync(join(gateway.dir, 'data', 'mask-key'), 'utf8').trim()
    assert.equal(statSync(join(gateway.dir, 'data', 'mask-key')).mode & 0o777, 0o600)
    const shown = `{iban:${pseudonym(IBAN, key)}}`
    const paths = trail()
      .trim()
      .split('\n')
      .flatMap((line) => {
        const record = JSON.parse(line)
        return record.type === 'API_REQUEST' ? [record.path] : []
      })
    assert.deepEqual(paths.slice(0, 4), [
      `/accounts/${shown}`,
      `/accounts/${shown}`,
      `/accounts/${shown}/days/1`,
      `/accounts/${shown}/secret`,
    ])
    assert.deepEqual(
      [...new Set(paths.slice(4))].sort(),
      ['-', '/Accounts', '/accounts', '/open/7'],
      'what no row serves',
    )
    assert.ok(!trail().includes(IBAN.slice(2)), 'the trail has the value')
    assert.ok(!JSON.stringify(gateway.process.lines).includes(IBAN.slice(2)), 'the log has the value')
  })

  it('in the path of a DPoP proof does not reach the log when the request has another path', async () => {
    const keys = await generateKeyPair('ES256')
    const jkt = await calculateJwkThumbprint(await exportJWK(keys.publicKey))
    const token = await upstream.issuer.token({ cnf: { jkt } })
    const dpop = await proof(keys, { htm: 'GET', htu: `${ISSUER}/accounts/${IBAN}`, ath: ath(token) })
    const headers = { authorization: `DPoP ${token}`, dpop }
    assert.equal((await call(`${gateway.url}/mine`, { headers })).status, 401)
    await until(() => gateway.process.lines.some(({ code }) => code === 'invalid_dpop_proof') || undefined)
    assert.ok(!JSON.stringify(gateway.process.lines).includes(IBAN.slice(2)), 'the log has the value')
  })

  it('has the pseudonym that "audit pseudonym" prints, by which "audit find" finds it', async (t) => {
    const env = { ...process.env, GATEWAY_DATA_DIR: join(gateway.dir, 'data') }
    const file = join(temporaryDirectory(t), 'gateway.json')
    writeFileSync(file, JSON.stringify(config))
    const command = [PROGRAM, 'audit', 'pseudonym', '--config', file]
    const options = { input: `${IBAN}\n`, encoding: 'utf8', env } as const
    const hex = execFileSync(process.execPath, command, options).trim()
    assert.match(hex, /^[0-9a-f]{16}$/)
    const { stdout } = await countersign(['audit', 'find', '--path', hex, gateway.auditFile], env)
    assert.equal(stdout.trim().split('\n').length, 8)
  })

  it('reaches neither trail nor log over HTTP/2, and after an edit that adds the mask', async () => {
    const row = { path: '/cards/{number}', auth: ['none'] }
    const edited = (mask?: readonly string[]) => ({
      upstream: upstream.url,
      http2: true,
      routes: [{ ...row, mask }],
    })
    const other = await startGateway({ config: edited(), env: { GATEWAY_LOG_LEVEL: 'debug' } })
    const session = connect(other.url)
    const pathOf = async (path: string, id: string) => {
      await ask(session, { path, headers: { 'x-request-id': id } })
      const [request, response] = await other.pair(id)
      assert.equal(request.path, response.path)
      return request.path
    }
    assert.equal(await pathOf('/cards/4111111111111111', 'before'), '/cards/4111111111111111')
    writeFileSync(join(other.dir, 'gateway.json'), JSON.stringify(edited(['number'])))
    await until(() => other.process.lines.find(({ msg }) => msg === 'settings are in force'))
    // The HTTP/2 connection was open before the edit.
    const shown = await pathOf(`/cards/%35500000000000004?x=1`, 'after')
    const key = readFileSync(join(other.dir, 'data', 'mask-key'), 'utf8').trim()
    assert.equal(shown, `/cards/{number:${pseudonym('5500000000000004', key)}}`)
    assert.equal(await pathOf('/cards/5500000000000004/x', 'unknown'), '/cards')
    assert.equal(await pathOf('/cards/5500000000000004;x', 'refused'), '-')
    session.close()
    await other.end()
    const told = readFileSync(other.auditFile, 'utf8') + JSON.stringify(other.process.lines)
    assert.ok(!told.includes('500000000000004'), told)
    assert.ok(upstream.seen.some(({ url }) => url?.includes('5500000000000004')))
  })
})
