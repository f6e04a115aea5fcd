import assert from 'node:assert/strict'
import fs, { writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  AUDIENCE,
  answerJson,
  es256Token,
  freshKey,
  goodClaims,
  ISSUER,
  type Members,
  serve,
  signingKey,
} from '../../auth/tokens/issuer.test-support.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { countersign } from '../program.test-support.ts'

async function explain(t: TestContext, tokens: string, token: string) {
  const dir = temporaryDirectory(t)
  const { uri } = await serve(t, answerJson({ keys: [signingKey('ES256').jwk] }))
  const file = join(dir, 'gateway.json')
  const routes = [{ path: '/*', auth: ['bearer'] }]
  writeFileSync(file, JSON.stringify({ issuer: ISSUER, jwksUri: uri, audience: AUDIENCE, tokens, routes }))
  standardInputIs(t, `${token}\n`)
  const { status, stdout } = await countersign(['explain', 'token', '--config', file])
  assert.ok(!stdout.includes(token.split('.')[2] as string), 'it shows no signature')
  return { code: status, lines: stdout.trimEnd().split('\n') }
}

function standardInputIs(t: TestContext, text: string): void {
  const { readFileSync } = fs
  const put = (read: unknown) => {
    Object.assign(fs, { readFileSync: read })
    syncBuiltinESMExports()
  }
  put((...[path, options]: Parameters<typeof readFileSync>) =>
    path === 0 ? text : readFileSync(path, options),
  )
  t.after(() => put(readFileSync))
}

function tokenOf(typ: string, changes: Members = {}, key = signingKey('ES256').privateKey): string {
  const seconds = Math.floor(Date.now() / 1000)
  const claims = goodClaims({ iat: seconds, exp: seconds + 600, client_id: 'app', ...changes })
  return es256Token({ header: { typ }, claims, key })
}

test('a token that is accepted is told with who calls', async (t) => {
  const { code, lines } = await explain(t, 'rfc9068', tokenOf('at+jwt'))
  assert.deepEqual(lines, [
    'pass  form',
    'pass  issuer',
    'pass  kind',
    'pass  claims',
    'pass  signature',
    '      user user-1, client app, scopes accounts:read transfers:write',
    '      acr none, auth_time none',
  ])
  assert.equal(code, 0)
})

test('what a step-up of a route asks for is told: how and when the user was authenticated', async (t) => {
  const authTime = Math.floor(Date.now() / 1000) - 60
  const { lines } = await explain(t, 'rfc9068', tokenOf('at+jwt', { acr: 'urn:mfa', auth_time: authTime }))
  assert.equal(
    lines.at(-1),
    `      acr urn:mfa, auth_time with the clock tolerance ${new Date((authTime + 10) * 1000).toISOString()}`,
  )
})

test('every check that a token fails is told with its cause', async (t) => {
  const { code, lines } = await explain(t, 'rfc9068', tokenOf('JWT', { aud: 'other' }))
  assert.deepEqual(lines.slice(2), [
    'FAIL  kind: typ "jwt" is no access token',
    `FAIL  claims: aud "other" does not name ${AUDIENCE}`,
  ])
  assert.equal(code, 1)
})

test('a token that somebody else signed passes all checks but the last', async (t) => {
  const { code, lines } = await explain(t, 'rfc9068', tokenOf('at+jwt', {}, freshKey('x').privateKey))
  assert.equal(lines.at(-1), 'FAIL  signature: the signature does not fit')
  assert.equal(code, 1)
})
