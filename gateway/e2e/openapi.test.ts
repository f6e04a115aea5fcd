import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { REFUSALS } from '../refusals.ts'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { until } from './running-gateway.ts'
import { startService, type TestService } from './running-service.ts'

const REDOCLY = fileURLToPath(new URL('../../node_modules/@redocly/cli/bin/cli.js', import.meta.url))
const NO_SCHEMATHESIS =
  spawnSync('schemathesis', ['--version']).error !== undefined &&
  'schemathesis is not installed (pip install schemathesis)'

/** A well-formed request may get 422 (no such account), which is no fault of its schema. */
const SCHEMATHESIS_CONFIG = `[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]
`
/** `npm run test:long` also tries every boundary of every parameter, and more random requests. */
const AMOUNT =
  LONGER === 1
    ? ['--phases=examples,fuzzing', '--max-examples=5']
    : ['--phases=examples,coverage,fuzzing', '--max-examples=10']
/** These two end the session of the requests, so they come last. */
const ENDS_SESSION = ['deleteUser', 'logout']

interface Document {
  readonly paths: Record<
    string,
    Record<string, { readonly responses: Record<string, { description: string }> }>
  >
  readonly components: { readonly schemas: { Problem: { properties: { code: { enum: string[] } } } } }
}

describe('the description of the API, as callers get it from the gateway', () => {
  const dir = mkdtempSync(join(tmpdir(), 'countersign-openapi-'))
  let service: TestService
  let document: Document

  before(async () => {
    // Schemathesis sends many requests and wrong credentials, so no limit and no throttle applies.
    const config = { authThrottle: { failures: 0, window: '1m' } }
    service = await startService({ limits: 'unlimited', config })
    document = (await call(`${service.url}/openapi.json`)).json<Document & Record<string, unknown>>()
    writeFileSync(join(dir, 'openapi.json'), JSON.stringify(document))
    writeFileSync(join(dir, 'schemathesis.toml'), SCHEMATHESIS_CONFIG)
  })
  after(async () => {
    await service.end()
    rmSync(dir, { recursive: true, force: true })
  })

  async function run(
    program: string,
    args: readonly string[],
  ): Promise<{ code: number | null; output: string }> {
    const env = {
      ...process.env,
      HOME: dir,
      NODE_V8_COVERAGE: '',
      PYTHONHASHSEED: '0',
      REDOCLY_TELEMETRY: 'off',
    }
    const child = spawn(program, args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    return { code, output }
  }

  async function operatorToken(): Promise<string> {
    const body = { email: 'operator@example.com', password: 'demo-password' }
    const response = await call(`${service.url}/api/login`, { method: 'POST', body })
    return response.json<{ accessToken: string }>().accessToken
  }

  async function tryOut(selection: readonly string[]): Promise<void> {
    const { code, output } = await run('schemathesis', [
      '--config-file=schemathesis.toml',
      'run',
      `${service.url}/openapi.json`,
      '--header',
      `Authorization: Bearer ${await operatorToken()}`,
      ...AMOUNT,
      '--seed=1',
      '--generation-database=none',
      '--no-color',
      ...selection,
    ])
    assert.equal(code, 0, output)
    // Schemathesis lists operations that were always refused. These must not be among them.
    assert.doesNotMatch(output, /- (?:GET|POST) \/api\/(?:data|balance|verify|users)$/m, output)
  }

  it('lists every refusal code of the gateway, in its schema and wherever an operation describes its status', () => {
    const { enum: codes } = document.components.schemas.Problem.properties.code
    assert.deepEqual(
      Object.keys(REFUSALS).filter((code) => !codes.includes(code)),
      [],
      'missing in backend/gateway-problems.json: npm run schemas',
    )
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods))
    for (const [code, { status }] of Object.entries(REFUSALS)) {
      for (const { responses } of operations) {
        const described = responses[status]?.description.split(', ') ?? [code]
        assert.ok(described.includes(code), `${code} is missing where ${status} is described`)
      }
    }
  })

  it('has no fault that redocly finds', async () => {
    const { code, output } = await run(process.execPath, [
      REDOCLY,
      'lint',
      'openapi.json',
      '--format=stylish',
    ])
    assert.equal(code, 0, output)
  })

  it('can replace most route rows of the service, and then requests are validated', async () => {
    const file = join(service.gateway.dir, 'gateway.json')
    const shipped = JSON.parse(readFileSync(file, 'utf8')) as { routes: { path: string }[] }
    const routes = shipped.routes.filter(({ path }) =>
      /^\/(?:docs|oauth|openapi|\.well-known\/o)|^\/api\/data/.test(path),
    )
    const openapi = { file: join(dir, 'openapi.json'), schemes: { webhook: 'hmac' }, validateRequests: true }
    writeFileSync(file, JSON.stringify({ ...shipped, routes, openapi }))
    const send = (method: string, path: string, body?: object, token?: string) =>
      call(service.url + path, {
        method,
        ...(body === undefined ? {} : { body }),
        ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
      })
    const code = async (response: ReturnType<typeof send>) => (await response).json<{ code?: string }>().code
    const validates = async () => (await code(send('POST', '/api/login', {}))) === 'schema_violation'
    await until(async () => (await validates()) || undefined)

    const login = await send('POST', '/api/login', { email: 'alice@example.com', password: 'demo-password' })
    const { accessToken: alice } = login.json<{ accessToken: string }>()
    const operator = await operatorToken()
    assert.equal((await send('GET', '/api/balance', undefined, alice)).status, 200)
    assert.equal(await code(send('GET', '/api/balance')), 'missing_token')
    assert.equal(await code(send('GET', '/api/users', undefined, alice)), 'insufficient_scope')
    assert.equal((await send('GET', '/api/users?limit=1', undefined, operator)).status, 200)
    assert.equal(await code(send('GET', '/api/users?limit=1000', undefined, operator)), 'schema_violation')
    assert.equal(await code(send('GET', '/api/users/none', undefined, operator)), 'schema_violation')
    assert.equal(await code(send('POST', '/api/webhooks/acme', {})), 'missing_credentials')
    assert.equal(await code(send('GET', '/api/nothing', undefined, alice)), 'not_found')
    assert.equal(await code(send('PUT', '/api/balance', {}, alice)), 'method_not_allowed')
    assert.equal((await send('GET', '/api/data', undefined, alice)).status, 200)
    const transfer = { toAccountId: '0199f4a8-6c1e-7d53-9f0e-0c7c1c6b1f7e', amount: '1.00', currency: 'EUR' }
    assert.equal(
      await code(send('POST', '/api/transfer', { ...transfer, amount: '1,00' }, alice)),
      'schema_violation',
    )
    // The gateway lets it through, and the service does not know the account.
    assert.equal((await send('POST', '/api/transfer', transfer, alice)).status, 422)

    writeFileSync(file, JSON.stringify(shipped))
    await until(async () => !(await validates()) || undefined)
  })

  // It takes half a minute, and on a busy machine much longer.
  const options = { skip: NO_SCHEMATHESIS, timeout: 600_000 }
  it('says what the service does, for every request that schemathesis makes', options, async () => {
    await tryOut(ENDS_SESSION.map((id) => `--exclude-operation-id=${id}`))
    await tryOut(ENDS_SESSION.map((id) => `--include-operation-id=${id}`))
  })
})
