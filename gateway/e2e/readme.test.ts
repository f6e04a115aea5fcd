import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { freePort } from '../../backend/testing/free-port.ts'
import { NO_REDIS } from '../store/redis-server.test-support.ts'
import { readAudit } from '../testing/audit-file.ts'
import { call } from './client.ts'
import { skipWithout } from './other-programs.ts'
import { until } from './running-gateway.ts'

const { TEST_GATEWAY, TEST_BACKEND } = process.env
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const README = readFileSync(join(ROOT, 'README.md'), 'utf8')
/** The README, then the pages whose commands continue it, in order. */
const PAGES = [
  README,
  ...[
    'docs/use/own-service.md',
    'docs/use/demo-bank.md',
    'docs/use/oauth.md',
    'docs/use/mutual-tls.md',
    'docs/use/webhooks.md',
    'docs/use/signatures.md',
    'docs/use/several-gateways.md',
    'docs/operate/recipes.md',
  ].map((page) => readFileSync(join(ROOT, page), 'utf8')),
].join('\n')

const EXAMPLE_ISSUER = 'https://id.example.com/realms/bank'
const PORTS = ['8080', '9090', '3000', '3001', '8081', '9091', '8082', '9092', '8443', '6390']
/** This chapter needs Redis, which may be missing. */
const SHARED = 'Several gateways as one'

/** The shell blocks of the pages in their order, by the heading they stand under. */
function blocks(): { readonly heading: string; readonly script: string }[] {
  const found: { heading: string; script: string }[] = []
  let heading = ''
  for (const match of PAGES.matchAll(/^#{1,3} (.+)$|^```sh\n([\s\S]*?)^```$/gm)) {
    if (match[1] !== undefined) heading = match[1]
    else found.push({ heading, script: match[2] as string })
  }
  return found
}

/** Links the gateway's files. In a test run, the programs are bundled ones, which start with half of the CPU. */
function linkGateway(directory: string): void {
  const isBundled = TEST_GATEWAY && TEST_BACKEND
  const programs = isBundled ? ['main.ts', 'start.ts', 'cli/countersign.ts'] : []
  const link = (folder: string) => {
    mkdirSync(join(directory, folder))
    for (const entry of readdirSync(join(ROOT, 'gateway', folder))) {
      const path = join(folder, entry)
      const to = join(directory, path)
      if (isBundled && path === 'cli') link(path)
      else if (!programs.includes(path)) symlinkSync(join(ROOT, 'gateway', path), to)
      else writeFileSync(to, `import '${join(dirname(String(TEST_GATEWAY)), path.replace(/ts$/, 'js'))}'\n`)
    }
  }
  link('')
}

/**
 * Writes replacements of npx and npm for a test run, because each start of a real one costs 0.4 s of CPU. Only the
 * service and the first `init` run by the real ones.
 */
function writeShortcuts(directory: string): void {
  mkdirSync(directory)
  if (!TEST_GATEWAY) return
  const command = `'${process.execPath}' '${join(dirname(TEST_GATEWAY), 'cli/countersign.js')}'`
  const npx = `if [ "$1 $2" = '-- countersign' ] && [ "$3" != init ]; then shift 2; exec ${command} "$@"; fi
PATH=\${PATH#*:} exec npx "$@"`
  const npm = `shift
while [ "$1" = -s ] || [ "$1" = --silent ]; do shift; done
script=$(sed -n "s/^ *\\"$1\\": \\"\\(.*\\)\\",\\{0,1\\}$/\\1/p" package.json)
shift
[ "$1" = -- ] && shift
exec sh -c "$script \\"\\$@\\"" sh "$@"`
  for (const [name, script] of Object.entries({ npx, npm }))
    writeFileSync(join(directory, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

/** A bash that keeps its variables from block to block, as a reader's terminal does. */
class Shell {
  readonly #bash: ChildProcess
  #output = ''

  constructor(cwd: string) {
    // Without coverage, because these programs run without the loader of the tests.
    const env = { ...process.env, PATH: `${join(cwd, 'bin')}:${process.env.PATH}`, NODE_V8_COVERAGE: '' }
    this.#bash = spawn('bash', [], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    for (const stream of [this.#bash.stdout, this.#bash.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text
      })
    }
  }

  async run(script: string): Promise<string> {
    this.#output = ''
    this.#bash.stdin?.write(`${script}\necho "<end>"\n`)
    await until(() => (this.#output.includes('<end>') ? true : undefined), 100_000)
    return this.#output.replace('<end>\n', '')
  }

  end(): void {
    // The group includes all programs that a block has left in the background.
    process.kill(-(this.#bash.pid as number), 'SIGTERM')
  }
}

describe('the README', { skip: skipWithout('curl', 'openssl') }, () => {
  let dir: string
  let start: ChildProcess
  let shell: Shell
  let adapt: (script: string) => string
  let provider: Server
  const ports = new Map<string, number>()

  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'countersign-readme-'))
    for (const part of ['config', 'package.json', 'tsconfig.json']) {
      cpSync(join(ROOT, part), join(dir, part), { recursive: true })
    }
    // No command edits these folders, and links to them use code that is already compiled.
    for (const part of ['backend', 'launcher', 'node_modules']) symlinkSync(join(ROOT, part), join(dir, part))
    linkGateway(join(dir, 'gateway'))
    writeShortcuts(join(dir, 'bin'))
    // The deadline is long, because other tests keep the machine busy.
    const example = join(dir, 'config/examples/any-service.json')
    const patient = { ...JSON.parse(readFileSync(example, 'utf8')), onStoreFailure: { deadlineMs: 5000 } }
    writeFileSync(example, JSON.stringify(patient))
    for (const port of PORTS) ports.set(port, await freePort())
    const { issuer, token } = await startProvider()
    adapt = (script) =>
      script
        .replace(EXAMPLE_ISSUER, issuer)
        .replace('an-access-token-of-your-provider', token)
        .replace(new RegExp(`\\b(${PORTS.join('|')})\\b`, 'g'), (port) => String(ports.get(port)))
    start = spawn('npm', ['start'], {
      cwd: dir,
      stdio: 'ignore',
      // In its own group, because npm does not pass SIGTERM on.
      detached: true,
      env: {
        ...process.env,
        NODE_V8_COVERAGE: '',
        GATEWAY_PORT: String(ports.get('8080')),
        GATEWAY_ADMIN_PORT: String(ports.get('9090')),
        BACKEND_PORT: String(ports.get('3000')),
        PUBLIC_URL: `http://localhost:${ports.get('8080')}`,
        GATEWAY_ISSUER: `http://localhost:${ports.get('8080')}`,
        GATEWAY_UPSTREAM: `http://127.0.0.1:${ports.get('3000')}`,
      },
    })
    const ready = `http://127.0.0.1:${ports.get('9090')}/readyz`
    await until(
      async () => ((await call(ready).catch(() => undefined))?.status === 200 ? true : undefined),
      100_000,
    )
    shell = new Shell(dir)
  })

  /** Starts a replacement of Keycloak, with metadata, keys and an access token in its form. */
  async function startProvider(): Promise<{ readonly issuer: string; readonly token: string }> {
    const { publicKey, privateKey } = await generateKeyPair('RS256')
    const keys = [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256', use: 'sig' }]
    provider = createServer((request, response) => {
      const metadata = { issuer, jwks_uri: `${issuer}/protocol/openid-connect/certs` }
      const isMetadata = request.url?.endsWith('/.well-known/openid-configuration')
      response.setHeader('Content-Type', 'application/json')
      response.end(JSON.stringify(isMetadata ? metadata : { keys }))
    })
    provider.listen(0, '127.0.0.1')
    await once(provider, 'listening')
    const issuer = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/realms/bank`
    const token = await new SignJWT({ typ: 'Bearer', azp: 'app', scope: 'openid' })
      .setProtectedHeader({ alg: 'RS256', kid: 'one', typ: 'JWT' })
      .setIssuer(issuer)
      .setAudience('https://api.example.com')
      .setSubject('alice')
      .setJti('token-1')
      .setIssuedAt()
      .setExpirationTime('10m')
      .sign(privateKey)
    return { issuer, token }
  }

  after(async () => {
    provider.close()
    shell.end()
    const ended = once(start, 'exit')
    process.kill(-(start.pid as number), 'SIGTERM')
    await ended
    rmSync(dir, { recursive: true, force: true })
  })

  /** What each block must print, by its heading. */
  const expectations: Readonly<Record<string, readonly RegExp[]>> = {
    'Log in': [/^$/],
    Users: [
      /operator@example\.com.*alice@example\.com/,
      /"name":"Carmen Ruiz".*"email":"carmen@example\.com"/,
      /"name":"Carmen Ruiz Gil"/,
      /"name":"Carmen Gil"/,
      /HTTP\/1\.1 204 No Content/,
      /HTTP\/1\.1 403 Forbidden[\s\S]*error="insufficient_scope"/,
    ],
    'Money and identity': [
      /"balance":"1000\.00"[\s\S]*"balance":"987\.50"/,
      /("transferId":"[^"]+")[\s\S]*\1/,
      /"status":"verified"/,
      // On a busy machine the first client may give up before its request is sent.
      /Idempotency-Replayed: true[\s\S]*\ncall 1\n/,
    ],
    Limits: [
      // The commands before have logged in five times, in about a minute.
      /^(4(?:29|01)\n){5}HTTP\/1\.1 429 [\s\S]*Retry-After: \d+/,
      /HTTP\/1\.1 200 OK[\s\S]*RateLimit-Policy: "login";q=8;w=60/,
      /\n200\nready\n200\n429\n/,
    ],
    'The demo bank': [
      /"balance":/,
      /"API_REQUEST","requestId":"my-request-1"[\s\S]*"API_RESPONSE","requestId":"my-request-1"[\s\S]*"statusCode":200/,
      /^gateway_http_requests_total\{route="\/api\/balance",method="GET",status="200"\} [1-9]/m,
    ],
    'Mobile apps: OAuth 2.0 with PKCE': [
      /Access: openid offline_access accounts:read \(Bearer, \d+ s\)\nBalance: \d+\.\d\d\nRenewed: true/,
      /"pushed_authorization_request_endpoint":/,
    ],
    'Server to server: mutual TLS': [
      /HTTP\/2 200 [\s\S]*"currencies"[\s\S]*HTTP\/2 200 [\s\S]*HTTP\/2 401 [\s\S]*"code":"missing_token"/,
      /"code":"invalid_certificate"[\s\S]*HTTP\/2 200 [\s\S]*"clientId":"bank-b"/,
    ],
    'Webhooks: signed with HMAC': [
      /HTTP\/1\.1 202 [\s\S]*HTTP\/1\.1 409 [\s\S]*"code":"webhook_replayed"[\s\S]*HTTP\/1\.1 202 [\s\S]*Idempotency-Replayed: true[\s\S]*HTTP\/1\.1 401 [\s\S]*"code":"invalid_signature"/i,
    ],
    'Try it': [
      /^\{"keys":\[\{.*"kid"[\s\S]*HTTP\/1\.1 200 [\s\S]*Signature-Input: gateway=\("@status" [\s\S]*"currencies"(?:[\s\S]*HTTP\/1\.1 401 [\s\S]*"code":"invalid_signature"){2}/m,
    ],
    [SHARED]: [
      /GATEWAY_STORE: 127\.0\.0\.1:\d+: reached, /,
      /ready\n(200\n){6}(429\n){2}(200\n){6}(429\n){2}degraded: the shared store is away\ngateway_store_breaker_open 1\n/,
    ],
    'Behind a load balancer': [
      /"x-forwarded-for":"198\.51\.100\.7, .*"x-forwarded-proto":"https"[\s\S]*"requestId":"behind-1".*"ip":"198\.51\.100\.7"/,
    ],
    'External identity provider': [
      /^http:\/\/localhost:\d+\nhttp:\/\/localhost:\d+\/\.well-known\/jwks\.json\n$/,
    ],
    'Rotating keys, secrets and certificates': [/"balance":/],
    'Before your own service': [
      /gateway\.json: OK, routes: 1[\s\S]*limits\.json: OK[\s\S]*ready\n[\s\S]*HTTP\/1\.1 401 [\s\S]*missing_token[\s\S]*HTTP\/1\.1 200 OK[\s\S]*X-Frame-Options: DENY[\s\S]*hello alice[\s\S]*data\/mine\/limits\.json/,
    ],
  }

  const outputs = new Map<string, string>()
  let chapter: string | undefined
  for (const { heading, script } of blocks()) {
    // The folder of this test has a link to the project's modules.
    if (/^npm ci\b/.test(script)) continue
    // Tokens last ten minutes, so a reader may begin a chapter without good ones.
    const expired = heading === chapter ? '' : 'unset OPERATOR ALICE BOB\n'
    chapter = heading
    const skip = heading === SHARED && NO_REDIS
    it(`runs the commands under "${heading}": ${script.slice(0, 60).replaceAll('\n', ' ')}`, {
      skip,
    }, async () => {
      outputs.set(heading, (outputs.get(heading) ?? '') + (await shell.run(adapt(expired + script))))
    })
  }
  for (const [heading, patterns] of Object.entries(expectations)) {
    const skip = heading === SHARED && NO_REDIS
    it(`has commands under "${heading}" that print what it says`, { skip }, () => {
      // Leaves out log lines of gateways in the background, which may come in the middle of a line.
      const output = (outputs.get(heading) ?? 'never run').replaceAll(/\{"level":.*\n/g, '')
      for (const pattern of patterns) assert.match(output, pattern)
      assert.doesNotMatch(output, /\}(\{|HTTP)/, 'two responses on one line')
    })
  }

  it('shows the same limit to a reader who logged in more than a minute ago', async () => {
    const [guesses, edit] = blocks().filter(({ heading }) => heading === 'Limits')
    // Instead of a minute's wait, a crash forgets the counts of so short a window.
    await shell.run(adapt(crash()))
    const guessed = await shell.run(adapt(`${guesses?.script}`))
    const beyond = await shell.run('echo "token: <$(login alice)>"')
    const output = guessed + (await shell.run(adapt(`${edit?.script}`)))
    assert.equal(beyond, 'At most 5 requests in 1m: Slows down the guessing of passwords\ntoken: <>\n')
    assert.match(
      output,
      /^(401\n){5}HTTP\/1\.1 429 [\s\S]*HTTP\/1\.1 200 OK[\s\S]*RateLimit-Policy: "login";q=8;w=60/,
    )
  })

  function crash(): string {
    const lines = /^kill -9 .*\nuntil .*$/m.exec(PAGES)
    return lines?.[0] ?? assert.fail('no page kills a gateway')
  }

  it('ends the gateway of "Before your own service" by SIGTERM', () => {
    const reasons = readAudit(join(dir, 'data/mine/audit.ndjson')).map(({ reason }) => reason)
    assert.equal(reasons.find(Boolean), 'SIGTERM')
  })

  it('stops every gateway that it starts, and kills no process by name', async () => {
    assert.doesNotMatch(PAGES, /\b(pkill|killall)\b/)
    for (const port of PORTS.slice(3)) {
      await until(() =>
        call(`http://127.0.0.1:${ports.get(port)}/`).then(
          () => undefined,
          () => true,
        ),
      )
    }
  })

  it('is short enough to read', () => {
    assert.ok(README.split('\n').length - 1 <= 130)
  })

  it('leaves no secret that other users can read', () => {
    for (const file of ['acme-secret', 'upstream-secret']) {
      assert.equal(statSync(join(dir, 'data', file)).mode & 0o077, 0, file)
    }
  })
})
