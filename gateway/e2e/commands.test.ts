import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it, mock } from 'node:test'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { freePort } from '../../backend/testing/free-port.ts'
import { prepareBackendDirectory } from '../../backend/testing/prepared-directory.ts'
import { requestRecord, responseTo } from '../audit/audit-records.ts'
import { COMMANDS } from '../cli/commands.ts'
import { countersign, PROGRAM } from '../cli/program.test-support.ts'
import { SealedTrail } from '../evidence/sealed-trail.test-support.ts'
import packageJson from '../package.json' with { type: 'json' }
import { startGateway, type TestGateway, until } from './running-gateway.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BIN = join(ROOT, 'gateway', packageJson.bin.countersign)
/** A line in which a shell would change no word. */
const PLAIN = /^countersign(?: [\w./:@=,%-]+)*$/
/** Commands that start another program, which writes to the same output. */
const STARTS_PROGRAM = /^countersign (keys rotate|run)/
const TOKEN = 'a-token-of-the-admin-listener-0123456789'

const NO_SCRIPT = spawnSync('script', ['--version']).error !== undefined && 'needs script (util-linux)'

/** Writes a trail with the records that the examples of `audit` look for. */
async function writeTrail(dir: string): Promise<void> {
  const trail = new SealedTrail(dir)
  const facts = { method: 'GET', path: '/api/data', ip: '192.0.2.1', userAgent: '', gatewayId: undefined }
  const userId = 'a3f1e7c2-0000-7000-8000-000000000001'
  const now = new Date().toISOString()
  const machine = { userId: undefined, clientId: 'webhooks' }
  const person = { userId, clientId: 'tpp-1' }
  const requests = [
    requestRecord({ ...facts, ...machine, requestId: 'one', timestamp: '2026-11-15T12:00:00.000Z' }),
    requestRecord({ ...facts, ...person, requestId: 'my-request-1', timestamp: now }),
  ]
  trail.start()
  for (const request of requests) trail.write(request)
  trail.write(responseTo(requests[0]!, 200, 1))
  trail.write(responseTo(requests[1]!, 429, 1))
  await trail.end()
}

/** Variables for coverage, which would be inexact with functions compiled before. */
const { NODE_V8_COVERAGE, NODE_COMPILE_CACHE } = process.env
const COVERAGE = NODE_V8_COVERAGE
  ? { NODE_V8_COVERAGE, NODE_DISABLE_COMPILE_CACHE: '1' }
  : { ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }) }

describe('the command line', () => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'countersign-cli-')))
  const cwd = process.cwd()
  let gateway: TestGateway

  before(async () => {
    // Otherwise midnight could come between the records and the report of today.
    mock.timers.enable({ apis: ['Date'], now: Date.now() })
    cpSync(join(ROOT, 'config'), join(dir, 'config'), { recursive: true })
    mkdirSync(join(dir, 'data'))
    writeFileSync(join(dir, 'data/admin-token'), TOKEN, { mode: 0o600 })
    await writeTrail(join(dir, 'data'))
    await prepareBackendDirectory(join(dir, 'data/backend'))
    writeFileSync(
      join(dir, 'openapi.json'),
      JSON.stringify({ openapi: '3.1.0', paths: { '/a/{id}': { get: {} } } }),
    )
    for (const [from, to] of [
      ['any-service.json', 'shop.json'],
      ['any-service-limits.json', 'shop-limits.json'],
    ] as const) {
      cpSync(join(ROOT, 'config/examples', from), join(dir, to))
    }
    // As npm links it.
    mkdirSync(join(dir, 'bin'))
    symlinkSync(BIN, join(dir, 'bin/countersign'))
    writeDirectCommand()
    const config = JSON.parse(readFileSync(join(dir, 'config/gateway.json'), 'utf8'))
    const { limits } = JSON.parse(readFileSync(join(dir, 'config/limits.json'), 'utf8'))
    gateway = await startGateway({
      config: { ...config, adminTokenFile: join(dir, 'data/admin-token') },
      limits,
      env: { GATEWAY_ADMIN_HOST: '0.0.0.0' },
    })
  })
  after(async () => {
    mock.timers.reset()
    process.chdir(cwd)
    await gateway.end('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
  })

  /** Writes the command without the launcher, which takes a third of the CPU. */
  function writeDirectCommand(): void {
    mkdirSync(join(dir, 'direct'))
    writeFileSync(
      join(dir, 'direct/countersign'),
      `#!/bin/sh\nexec '${process.execPath}' '${PROGRAM}' "$@"\n`,
      { mode: 0o755 },
    )
  }

  /**
   * Runs a line as a reader types it, in a directory with a configuration, beside a running gateway. A line that needs
   * no shell runs in this process.
   */
  async function type(line: string, env: Readonly<Record<string, string>> = {}, folder = '.') {
    const adapted = line.replaceAll('http://127.0.0.1:9090', gateway.adminUrl)
    const place = join(dir, folder)
    const own = { HOME: dir, BACKEND_DATA_DIR: join(dir, 'data/backend'), ...env }
    if (PLAIN.test(adapted) && !STARTS_PROGRAM.test(adapted)) {
      process.chdir(place)
      const { status, stdout, stderr } = await countersign(adapted.split(' ').slice(1), own)
      return { status, out: stdout, errors: stderr }
    }
    const { status, stdout, stderr } = spawnSync('bash', ['-c', adapted], {
      cwd: place,
      encoding: 'utf8',
      env: { PATH: `${join(dir, 'direct')}:${join(dir, 'bin')}:${process.env.PATH}`, ...COVERAGE, ...own },
    })
    return { status, out: stdout, errors: stderr }
  }

  const adminEnv = () => ({
    GATEWAY_ADMIN_PORT: new URL(gateway.adminUrl).port,
    GATEWAY_ADMIN_TOKEN_FILE: join(dir, 'data/admin-token'),
  })

  /** Makes a configuration with a row that masks its parameter. */
  const MASKED = [
    'rm -rf config data && mkdir config data',
    `echo '{"routes":[{"path":"/accounts/{iban}","auth":["none"],"mask":["iban"]}]}' > config/gateway.json`,
    `echo ${'k'.repeat(43)} > data/mask-key && echo DE02120300000000202051 > iban.txt`,
  ].join(' && ')

  /** What an example and the line after it print, and what the example needs. */
  interface Expected {
    readonly says: RegExp
    readonly status?: number
    /** A new folder for the example. Default: the directory. */
    readonly folder?: string
    readonly before?: string
    readonly after?: string
  }
  const EXPECTED: Readonly<Record<string, Expected>> = {
    'countersign init --upstream http://127.0.0.1:3000': {
      folder: 'new-1',
      says: /^config\/gateway\.json: 1 route to http:\/\/127\.0\.0\.1:3000\n[\s\S]*next: npx -- countersign run\n$/,
    },
    'countersign init --upstream http://127.0.0.1:3000 --openapi openapi.json': {
      folder: 'new-2',
      before: 'cp ../openapi.json .',
      after: 'countersign explain route GET /a/1',
      says: /1 route to [\s\S]*note: what the document does not name gets 404[\s\S]*GET \/a\/1: the operation openapi\.json#\/paths\/~1a~1\{id\}\/get, \/a\/\{id\}/,
    },
    'countersign init --upstream http://127.0.0.1:3000 --issuer https://id.example/realms/bank --audience https://api.example':
      {
        folder: 'new-4',
        after: 'countersign validate',
        says: /https:\/\/id\.example\/realms\/bank: Keycloak, "tokens": "keycloak"; keys from https:\/\/id\.example\/realms\/bank\/protocol\/openid-connect\/certs, by the usual form, unchecked\nnote: check "jwksUri"[\s\S]*config\/gateway\.json: OK, routes: 1\n/,
      },
    'countersign init --upstream h2c://127.0.0.1:50051': {
      folder: 'new-3',
      after: 'countersign validate',
      says: /1 route to h2c:\/\/127\.0\.0\.1:50051\n[\s\S]*note: clients of gRPC need "tls"[\s\S]*config\/gateway\.json: OK/,
    },
    'countersign validate': { says: /^config\/gateway\.json: OK, routes: \d+\n/ },
    'countersign validate config/limits.json': { says: /^config\/limits\.json: OK, limits: 6\n$/ },
    'countersign validate --against http://127.0.0.1:9090': {
      says: /what would change\nconfig\/gateway\.json:\n[\s\S]*~ adminPort: \d+ → 9090/,
    },
    'countersign config show': {
      says: /^KEY +FROM +VALUE\n(?:GATEWAY_\S+ .*\n)*[\s\S]*^adminPort +GATEWAY_ADMIN_PORT +\d+$[\s\S]*^limits\[0\]\.path +config\/limits\.json +"\/api\/login"$/m,
    },
    'countersign explain route GET /api/balance': {
      says: /row \d+ of config\/gateway\.json, \/api\/balance\n[\s\S]*\n {2}tokens {4}of http:\/\/localhost:8080 for http:\/\/localhost:8080\/api\n/,
    },
    'countersign explain route DELETE /api/login': { says: /refused, 405 method_not_allowed/, status: 1 },
    'countersign explain limit POST /api/login': {
      says: /row 1 of config\/limits\.json, \/api\/login\n {2}name {6}login\n/,
    },
    'countersign explain token < token.txt': {
      // A token of https://nobody.example.
      before:
        "echo 'eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCIsImtpZCI6ImEifQ.eyJpc3MiOiJodHRwczovL25vYm9keS5leGFtcGxlIiwiYXVkIjoieCJ9.AAAA' > token.txt",
      says: /^pass {2}form\nFAIL {2}issuer: iss is not one of http:\/\/localhost:8080\n/,
      status: 1,
    },
    'countersign explain limit GET /api/data': { says: /nothing limits it/, status: 1 },
    'countersign health': { says: /^ready\n$/ },
    'countersign health --admin http://127.0.0.1:9090': { says: /^ready\n$/ },
    'countersign health --live': { says: /^alive\n$/ },
    'countersign reload': { says: /limits\.json: in force already\n/ },
    'countersign reload --admin http://127.0.0.1:9090 --token-file data/admin-token': {
      says: /limits\.json: in force already\n/,
    },
    'countersign audit verify --key data/audit-seal-key.pem': { says: /\nend: sealed to the end\nproven\n$/ },
    'countersign audit verify --key data/audit-seal-key.pem --since 7d data/audit.ndjson': {
      says: /\nproven\n$/,
    },
    'countersign audit verify --key data/audit-seal-key.pem --proof transfer.tlog-proof': {
      before: 'countersign audit prove --request my-request-1 > transfer.tlog-proof',
      says: /"API_REQUEST"[\s\S]* is line 3 of the log [\s\S]*"API_RESPONSE"[\s\S]*\nproven\n$/,
    },
    'countersign audit prove --request my-request-1 > transfer.tlog-proof': { says: /^$/ },
    'countersign audit prove --request my-request-1 --message transfer.http --key data/audit-seal-key.pem': {
      before: 'echo > transfer.http',
      says: /^pass {2}record\nFAIL {2}signed: the record has no signature\nNOT PROVEN\n$/,
      status: 1,
    },
    'countersign audit report --day today': {
      says: /requests {4}1, responses 1, unpaired 0, recovered 0\n {2}statuses {4}429: 1\n[\s\S]*nothing needs attention\n$/,
    },
    'countersign audit report --day 2026-11-15 --json data/audit.ndjson': {
      says: /^\{"file":"data\/audit\.ndjson","day":"2026-11-15","requests":1,"responses":1,"unpaired":0,/,
    },
    'countersign audit key secrets/audit-seal-key.pem': {
      says: /^countersign\/[0-9a-f]{16}\+[0-9a-f]{8}\+A\S{43}\n$/,
    },
    'countersign audit key --show data/audit-seal-key.pem': {
      says: /^countersign\/[0-9a-f]{16}\+[0-9a-f]{8}\+A\S{43}\n$/,
    },
    'countersign audit export --to data/exported data/audit.ndjson': {
      says: /^data\/exported: \d+ entries of countersign\/\S+ in 1 bundle\n$/,
    },
    'countersign audit find --user a3f1e7c2-0000-7000-8000-000000000001 --since 24h': {
      says: /^\{"type":"API_REQUEST","requestId":"my-request-1".*\n\{"type":"API_RESPONSE","requestId":"my-request-1".*\n$/,
    },
    'countersign audit find --status 429 --format table data/audit.ndjson': {
      says: /^TIME +RECORD +CODE +DURATION +METHOD +PATH +CALLER +ID\n\S+Z {2}response {2}429 {9}1 ms {2}GET .* a3f1e7c2-\S+ by tpp-1 192\.0\.2\.1 {2}my-request-1\n$/,
    },
    'countersign audit find --client webhooks --since 2026-11-01 --until 2026-12-01': {
      says: /^\{"type":"API_REQUEST","requestId":"one".*\n\{"type":"API_RESPONSE","requestId":"one".*\n$/,
    },
    'countersign audit pseudonym < iban.txt': { folder: 'masked', before: MASKED, says: /^[0-9a-f]{16}\n$/ },
    'countersign audit find --path "$(countersign audit pseudonym < iban.txt)"': {
      folder: 'masked',
      before: `${MASKED} && cp -r ../data/audit* data`,
      // The trail of this test has no masked path.
      says: /^$/,
      status: 1,
    },
    'countersign completion bash > countersign.bash': { says: /^$/, after: '. ./countersign.bash' },
    'countersign keys rotate': { says: /^signing key \S+ is published and signs from / },
    'countersign certs demo': { says: /are in data\/certs\. Never use them for anything real/ },
    'countersign certs demo --force data/my-certs': { says: /are in data\/my-certs\./ },
  }
  /** Lines that other tests run: below, in restart.test.ts and in idempotency.test.ts. */
  const ELSEWHERE = /^(GATEWAY_\S+ )*countersign (run|restart|idempotency)/

  for (const [name, { load }] of Object.entries(COMMANDS)) {
    it(`does what the examples of "${name}" say`, async () => {
      const { command } = await load()
      assert.ok(command.examples.length > 0)
      for (const [line] of command.examples) {
        if (ELSEWHERE.test(line)) continue
        const expected = EXPECTED[line] ?? assert.fail(`nothing is expected of: ${line}`)
        const env = /--token-file|validate( config|$)/.test(line) ? {} : adminEnv()
        const token = line.includes('--against')
          ? { GATEWAY_ADMIN_TOKEN_FILE: adminEnv().GATEWAY_ADMIN_TOKEN_FILE }
          : env
        const { folder = '.', before: first, after: then } = expected
        mkdirSync(join(dir, folder), { recursive: true })
        let said = ''
        for (const step of [first, line, then]) {
          if (step === undefined) continue
          const { status, out, errors } = await type(step, token, folder)
          said += out
          assert.equal(status, step === line ? (expected.status ?? 0) : 0, `${step}\n${said}${errors}`)
        }
        assert.match(said, expected.says, line)
      }
    })
  }

  it('verifies a trail as docs/verify/audit.md says', async () => {
    const chapters = readFileSync(join(ROOT, 'docs/verify/audit.md'), 'utf8').split('\n## ')
    const chapter = chapters.find((one) => one.startsWith('Verify\n')) ?? ''
    const scripts = [...chapter.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, script]) => script)
    assert.notEqual(scripts.length, 0)
    const { status, out, errors } = await type(`set -e\n${scripts.join('').replaceAll('npx -- ', '')}`)
    assert.equal(status, 0, errors)
    assert.match(
      out,
      /sealed to the end\nproven\n[\s\S]*\nproven\n[\s\S]* is line 3 of the log [\s\S]*\nproven\nexported: \d+ entries [\s\S]*attention\n$/,
    )
  })

  it('starts a gateway that serves until Ctrl-C, and writes log lines for people in a terminal', {
    skip: NO_SCRIPT,
  }, async () => {
    const { command } = await COMMANDS.run!.load()
    const port = await freePort()
    const adminPort = await freePort()
    // `exec`, because a shell in between has its own exit code after Ctrl-C.
    const line = `exec env ${command.examples[1]![0]}`
      .replace('8081', String(port))
      .replace('9091', String(adminPort))
    // The fault and the log repeat this window, which tries to set the terminal's title and to turn text around.
    const evil = { path: '/x', limit: 0, window: '\u001b]0;owned\u0007\u009b2J\u202e', purpose: 'Test' }
    const terminal = spawn('script', ['-qefc', line, '/dev/null'], {
      cwd: dir,
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {
        PATH: `${join(dir, 'bin')}:${process.env.PATH}`,
        ...COVERAGE,
        TERM: 'xterm',
        GATEWAY_DATA_DIR: 'data/run',
        GATEWAY_AUDIT_FILE: 'data/run/audit.ndjson',
      },
    })
    let seen = ''
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      seen += text
    })
    try {
      await until(() => (seen.includes('explain route') ? true : undefined))
      const text = stripVTControlCharacters(seen)
      assert.match(text, /info {2}listening {2}host=127\.0\.0\.1/)
      assert.match(text, new RegExp(`curl -i http://127\\.0\\.0\\.1:${port}/`))
      const health = await type(`countersign health --admin http://127.0.0.1:${adminPort}`)
      assert.equal(health.out, 'ready\n')
      writeFileSync(join(dir, 'shop-limits.json'), JSON.stringify({ limits: [evil] }))
      const reload = await type(`countersign reload --admin http://127.0.0.1:${adminPort}`)
      assert.equal(reload.status, 1)
      assert.match(reload.out, /shop-limits\.json: refused: the last good one stays in force/)
      assert.match(reload.errors, /\$\.limits\[0\]\.limit: must be between/)
      assert.match(reload.errors, /\\u001b\]0;owned\\u0007\\u009b2J\\u202e/)
      await until(() => (/\n +shop-limits\.json: \$\.limits\[0\]\.window/.test(seen) ? true : undefined))
      for (const control of ['\u001b]', '\u0007', '\u009b', '\u202e'])
        assert.ok(!seen.includes(control), seen)
      // A terminal sends this for Ctrl-C.
      terminal.stdin.write('\u0003')
      const [code] = await once(terminal, 'exit')
      assert.equal(code, 0, seen)
    } finally {
      terminal.kill('SIGKILL')
    }
  })

  it('tells what an edit would change, and that the files in force would change nothing', async () => {
    const text = readFileSync(gateway.limitsFile, 'utf8')
    // Quotes only where needed, because a line with quotes needs a shell.
    const word = (file: string) => (file.includes(' ') ? `'${file}'` : file)
    const options = { config: join(gateway.dir, 'gateway.json'), clients: gateway.clientsFile }
    const withLimits = (limits: string) =>
      Object.entries({ ...options, limits })
        .flatMap(([name, file]) => [`--${name}`, word(file)])
        .join(' ')
    const edited = join(dir, 'edited.json')
    writeFileSync(edited, text.replace('"limit":5', '"limit":8'))
    const env = { GATEWAY_PORT: '0', GATEWAY_ADMIN_PORT: '0', GATEWAY_ADMIN_HOST: '0.0.0.0' }
    const state = {
      GATEWAY_AUDIT_FILE: gateway.auditFile,
      GATEWAY_DATA_DIR: join(gateway.dir, 'data'),
      GATEWAY_AUDIT_SEALS: 'off',
      GATEWAY_DRAIN_GRACE_MS: '0',
    }
    const against = `--against http://127.0.0.1:9090 --token-file data/admin-token`
    const same = await type(`countersign validate ${withLimits(gateway.limitsFile)} ${against}`, {
      ...env,
      ...state,
    })
    assert.match(same.out, /the same configuration is in force\n$/, same.errors)
    const other = await type(`countersign validate ${withLimits(edited)} ${against}`, {
      ...env,
      ...state,
    })
    assert.match(
      other.out,
      /what would change\n.*edited\.json:\n {2}~ limit login: limit: 5 → 8\n$/,
      other.errors,
    )
  })

  it('has an exit code and a message for each mistake', async () => {
    const cases: [line: string, status: number, says: RegExp][] = [
      ['countersign', 2, /countersign COMMAND \[flags\]/],
      ['countersign --version', 0, new RegExp(`^${packageJson.version}\n$`)],
      [
        'countersign valdate',
        2,
        /has no command "valdate"; did you mean "validate"\?\nSee: countersign --help/,
      ],
      ['countersign constructor', 2, /has no command "constructor"/],
      ['countersign health --constructor', 2, /has no --constructor/],
      ['countersign audit fnd', 2, /has no command "audit fnd"; did you mean "audit find"\?/],
      [
        'countersign audit --help',
        0,
        /^countersign audit COMMAND \[flags\]\n\n {2}audit verify {3,}proves[\s\S]*audit export/,
      ],
      ['countersign help audit', 0, /^countersign audit COMMAND/],
      ['countersign explain', 2, /is not a command: there is explain route, explain limit/],
      ['countersign health --admn x', 2, /^countersign health has no --admn; did you mean --admin\?/],
      [
        'countersign health --admin http://127.0.0.1:1',
        1,
        /does not answer: connect ECONNREFUSED 127\.0\.0\.1:1$/m,
      ],
      ['countersign reload --admin http://127.0.0.1:9090', 1, /wants a token: name its file by --token-file/],
      [
        'countersign explain route get /x',
        2,
        /^countersign explain route METHOD must be a known method .* did you mean "GET"/,
      ],
      ['countersign explain route GET /a%2Fb', 1, /400 invalid_target/],
      ['countersign init --upstream http://127.0.0.1:1', 1, /there already, and nothing is overwritten/],
      [
        'countersign init --upstream http://127.0.0.1:1 --issuer http://id.example/realms/bank',
        2,
        /--issuer must be https, or on this machine, but is "http:\/\/id\.example\/realms\/bank"/,
      ],
      [
        'countersign init --upstream http://127.0.0.1:1 --issuer https://bank.eu.auth0.com',
        2,
        /--issuer of Auth0 must end with "\/": https:\/\/bank\.eu\.auth0\.com\//,
      ],
      ['countersign init --upstream http://127.0.0.1:1 --audience a', 2, /--audience needs --issuer URL/],
      ['countersign init --upstream localhost', 2, /--upstream must be http:\/\/host:port/],
      ['countersign init --upstream h2c://127.0.0.1:1/v1', 2, /--upstream must be .*h2c:\/\/host:port/],
      ["countersign validate $'\\e]0;owned\\a'", 1, /\\u001b\]0;owned\\u0007: \$: cannot be read/],
    ]
    for (const [line, status, says] of cases) {
      const typed = await type(line)
      assert.equal(typed.status, status, `${line}\n${typed.out}${typed.errors}`)
      assert.match(typed.out + typed.errors, says)
    }
    assert.equal(existsSync(join(dir, 'config/schemas/gateway.schema.json')), true)
  })

  it('says the same by --json as by text, with the same exit code', async () => {
    const json = async (line: string, status: number) => {
      const typed = await type(line)
      assert.equal(typed.status, status, `${line}\n${typed.out}${typed.errors}`)
      return JSON.parse(typed.out)
    }
    const at = '--admin http://127.0.0.1:9090'
    assert.deepEqual(await json(`countersign health --json ${at}`, 0), { healthy: true, state: 'ready' })
    assert.deepEqual(await json(`countersign health --live --json ${at}`, 0), {
      healthy: true,
      state: 'alive',
    })
    writeFileSync(join(dir, 'bad.json'), '{"limits":[{"path":"/a","limit":0,"window":"1m","purpose":"x"}]}')
    const { valid, good, faults } = await json('countersign validate --json config/limits.json bad.json', 1)
    assert.deepEqual([valid, good], [false, ['config/limits.json: OK, limits: 6']])
    assert.deepEqual([faults.length, faults[0].file, faults[0].path], [1, 'bad.json', '$.limits[0].limit'])
    const against = `--against http://127.0.0.1:9090 --token-file data/admin-token`
    assert.match(
      (await json(`countersign validate --json ${against}`, 0)).changes.join('\n'),
      /~ adminPort: \d+ → 9090/,
    )
    const balance = await json('countersign explain route --json GET /api/balance', 0)
    assert.deepEqual([balance.rows.length, balance.rows[0].path], [1, '/api/balance'])
    assert.match(balance.rows[0].says.limit, /^balance: /)
    const refused = await json('countersign explain route --json DELETE /api/login', 1)
    assert.match(refused.otherwise, /^refused, 405 method_not_allowed/)
    assert.deepEqual([refused.near[0].path, refused.near[0].why], ['/api/login', 'is not for DELETE'])
    const login = await json('countersign explain limit --json POST /api/login', 0)
    assert.deepEqual([login.rows[0].place, login.rows[0].says.name], ['row 1 of config/limits.json', 'login'])
    assert.equal(
      (await json('countersign explain limit --json GET /api/data', 1)).otherwise,
      'nothing limits it',
    )
    const token = await json('echo x | countersign explain token --json', 1)
    assert.deepEqual([token.accepted, token.checks[0].check, token.checks[0].passed], [false, 'form', false])
  })

  it('leaves no file behind when the disk is full during init', async () => {
    // The most blocks that a file may have: none, and too few for a schema.
    for (const blocks of [0, 1]) {
      const { status, errors } = await type(
        `mkdir full-${blocks} && cd full-${blocks} && ulimit -f ${blocks} && countersign init --upstream http://a:1`,
      )
      assert.equal(status, 1, errors)
      assert.match(errors, /nothing was written: EFBIG/)
      const left = readdirSync(join(dir, `full-${blocks}`), { recursive: true, withFileTypes: true })
      assert.deepEqual(
        left.filter((entry) => entry.isFile()).map(({ name }) => name),
        [],
      )
    }
  })

  it('does not start a gateway when the bare program is given a flag', async () => {
    const { status, errors } = await type(
      `"${process.execPath}" "${join(ROOT, 'gateway/main.ts')}" --version`,
    )
    assert.equal(status, 2)
    assert.match(errors, /takes no arguments: .* lists the commands/)
  })
})
