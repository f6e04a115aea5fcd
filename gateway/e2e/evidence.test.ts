import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { PROGRAM } from '../cli/program.test-support.ts'
import { call } from './client.ts'
import { skipWithout } from './other-programs.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const EVIDENCE = readFileSync(join(ROOT, 'docs/verify/evidence.md'), 'utf8')
/** The script of each command, by its letter. */
const COMMANDS = [...EVIDENCE.matchAll(/^\*\*([A-Z])\*\* [\s\S]*?^```sh\n([\s\S]*?)^```$/gm)].map(
  ([, letter = '', script = '']) => ({ letter, script }),
)

describe('docs/verify/evidence.md', () => {
  let upstream: TestUpstream
  let gateway: TestGateway
  let verifierKey = ''

  before(async () => {
    upstream = await startUpstream()
    const routes = [{ path: '/mine', auth: ['bearer'] }]
    const config = { upstream: upstream.url, routes, audit: { file: 'data/audit.ndjson' } }
    gateway = await startGateway({ config, env: { GATEWAY_AUDIT_SEALS: 'on' } })
    const authorization = `Bearer ${await upstream.issuer.token({ sub: 'user-7', sid: 'session-7' })}`
    const headers = { authorization, 'x-request-id': 'request-7' }
    assert.equal((await call(`${gateway.url}/mine`, { headers })).status, 200)
    assert.equal((await call(`${gateway.url}/mine`)).status, 401)
    writeFileSync(join(gateway.dir, 'gateway.json'), JSON.stringify({ ...config, via: true }))
    await until(() => gateway.audit().find(({ type }) => type === 'CONFIG_CHANGE'))
    await gateway.end()
    const bin = join(gateway.dir, 'bin')
    mkdirSync(bin)
    const program = `exec '${process.execPath}' '${PROGRAM}' "$@"\n`
    writeFileSync(join(bin, 'countersign'), `#!/bin/sh\n${program}`, { mode: 0o755 })
  })
  after(async () => {
    await gateway?.end()
    upstream?.close()
  })

  function run(script: string): Promise<{ readonly code: number | null; readonly output: string }> {
    const env = {
      PATH: `${join(gateway.dir, 'bin')}:${process.env.PATH}`,
      GATEWAY_AUDIT_FILE: gateway.auditFile,
      USER_ID: 'user-7',
      SID: 'session-7',
      REQUEST_ID: 'request-7',
      VERIFIER_KEY: verifierKey,
    }
    const moved = script.replaceAll('data/audit.ndjson', `'${gateway.auditFile}'`)
    const shell = spawn('bash', ['-eo', 'pipefail', '-c', moved], {
      cwd: gateway.dir,
      env,
      // If its input is a socket, bash takes itself for a remote shell and reads the user's settings.
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [shell.stdout, shell.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    return new Promise((resolve) => shell.on('close', (code) => resolve({ code, output })))
  }

  /** What each command must print. */
  const EXPECTED: Readonly<Record<string, readonly RegExp[]>> = {
    A: [/"type":"API_REQUEST".*"userId":"user-7"/, /"type":"API_RESPONSE".*"statusCode":200/],
    B: [/401/, /none/],
    C: [/AUDIT_START.*"open":0/, /AUDIT_STOP.*"reason":"SIGTERM"/],
    D: [/"owner":\{"uid":\d+.*"before":\[\{"via":false\}\],"after":\[\{"via":true\}\]/],
    E: [/API_REQUEST.*user-7/, /API_RESPONSE.*user-7/],
    F: [/^700 \S+ data$/m, /^600 \S+ .*audit\.ndjson$/m],
    G: [/^countersign\/[0-9a-f]{16}\+/],
    H: [/sealed to the end/],
    I: [/request-7/],
    J: [/, \d{4}-\d{2}-\d{2} \(UTC\)$/m],
  }

  /** What the report of command J must print. At midnight, the report may be about the day after the records. */
  function expectedReport(report: string): RegExp {
    const day = /, (\S+) \(UTC\)$/m.exec(report)?.[1] ?? ''
    const records = gateway.audit().filter(({ timestamp }) => String(timestamp).startsWith(day))
    const count = (of: string) => records.filter(({ type }) => type === of).length
    return new RegExp(
      `requests +${count('API_REQUEST')}, responses ${count('API_RESPONSE')}, unpaired 0[^]*config +${count('CONFIG_CHANGE')} change`,
    )
  }

  it('has commands that do what it says, and names only these in its tables', {
    skip: skipWithout('openssl'),
  }, async () => {
    assert.deepEqual(
      COMMANDS.map(({ letter }) => letter),
      Object.keys(EXPECTED),
    )
    verifierKey = (await run(COMMANDS.find(({ letter }) => letter === 'G')?.script ?? '')).output.trim()
    await Promise.all(
      COMMANDS.map(async ({ letter, script }) => {
        const { code, output } = await run(script)
        assert.equal(code, 0, `${letter}: ${output}`)
        for (const pattern of EXPECTED[letter] ?? []) assert.match(output, pattern, letter)
        if (letter === 'J') assert.match(output, expectedReport(output))
      }),
    )
    for (const row of EVIDENCE.split('\n').filter((line) => /^\| (?:\d|\(f\))/.test(line))) {
      const letters = row.split('|')[4]?.trim().split(', ') ?? []
      for (const letter of letters) assert.ok(letter === '' || letter in EXPECTED, row)
    }
  })
})
