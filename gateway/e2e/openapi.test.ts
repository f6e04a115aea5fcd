import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { REFUSALS } from '../refusals.ts'
import { call } from './client.ts'
import { LONGER } from './long-runs.ts'
import { startService, type TestService } from './running-service.ts'

const REDOCLY = fileURLToPath(new URL('../../node_modules/@redocly/cli/bin/cli.js', import.meta.url))
const NO_SCHEMATHESIS =
  spawnSync('schemathesis', ['--version']).error !== undefined &&
  'schemathesis is not installed (pip install schemathesis)'

/** A well-formed request for what cannot be done (no such account) is 422, which is no fault of its schema. */
const SCHEMATHESIS_CONFIG = `[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]
`
/** Under `npm run test:long` every boundary of every parameter as well, most of the CPU, and more random requests. */
const AMOUNT =
  LONGER === 1
    ? ['--phases=examples,fuzzing', '--max-examples=5']
    : ['--phases=examples,coverage,fuzzing', '--max-examples=10']
/** These two end the session that the requests are made in, so their turn comes last. */
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
    // Whoever tries everything out is neither slowed down nor shut out.
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

  /** Resolves to the exit code and everything that was printed. */
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
    // That what was tried out was let in, and not refused before it was looked at.
    assert.doesNotMatch(output, /- (?:GET|POST) \/api\/(?:data|balance|verify|users)$/m, output)
  }

  it('names every code that the gateway answers with, where a status is described', () => {
    const { enum: codes } = document.components.schemas.Problem.properties.code
    assert.deepEqual(
      Object.keys(REFUSALS).filter((code) => !codes.includes(code)),
      [],
      'missing in backend/gateway-problems.ts',
    )
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods))
    for (const [code, { status }] of Object.entries(REFUSALS)) {
      for (const { responses } of operations) {
        const described = responses[status]?.description.split(', ') ?? [code]
        assert.ok(described.includes(code), `${code} is missing where ${status} is described`)
      }
    }
  })

  it('has no fault that redocly knows of', async () => {
    const { code, output } = await run(process.execPath, [
      REDOCLY,
      'lint',
      'openapi.json',
      '--format=stylish',
    ])
    assert.equal(code, 0, output)
  })

  // Half a minute by itself; on a loaded machine it may take its time.
  const options = { skip: NO_SCHEMATHESIS, timeout: 600_000 }
  it('is what the service does, for whatever schemathesis thinks of', options, async () => {
    await tryOut(ENDS_SESSION.map((id) => `--exclude-operation-id=${id}`))
    await tryOut(ENDS_SESSION.map((id) => `--include-operation-id=${id}`))
  })
})
