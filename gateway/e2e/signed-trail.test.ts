import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { FlattenedSign } from 'jose'
import { digestOf, signMessage } from '../auth/signatures/signed-request.test-support.ts'
import { freshKey, type SigningKey, signingKey } from '../auth/tokens/issuer.test-support.ts'
import { countersign } from '../cli/program.test-support.ts'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { call, sendBytes, statusOf } from './client.ts'
import { startGateway, type TestGateway } from './running-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const HOST = 'api.bank.example'
const IBAN = 'DE02120300000000202051'
const BODY = '{"amount":"12.50"}'
const BANK = freshKey('bank-1')
const SECOND = freshKey('bank-1')
const SHOP = freshKey('shop-1')
const UK = signingKey('PS256', { kid: 'uk-1' })
const UK_CLAIMS = ['iat', 'iss', 'tan'].map((name) => `http://openbanking.org.uk/${name}`)

/** A signed payment, as its bytes are sent. */
function signedMessage(requestId: string, { privateKey, jwk }: SigningKey): string {
  const digest = digestOf(BODY)
  const created = Math.floor(Date.now() / 1000)
  const target = `/accounts/${IBAN}/payments?urgent=1`
  const signed = signMessage(
    [
      ['"@method"', 'POST'],
      ['"@target-uri"', `https://${HOST}${target}`],
      ['"content-digest"', digest],
      ['"x-note"', 'rent'],
    ],
    {
      key: privateKey,
      algorithm: 'ES256',
      params: `;created=${created};keyid="${jwk.kid}";tag="fapi-2-request"`,
    },
  )
  return [
    `POST ${target} HTTP/1.1`,
    `Host: ${HOST}`,
    `X-Request-ID: ${requestId}`,
    'X-Note: rent',
    `Content-Length: ${BODY.length}`,
    `Content-Digest: ${digest}`,
    ...Object.entries(signed).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
    '',
    BODY,
  ].join('\r\n')
}

/** A payment in the form of UK Open Banking. */
async function ukMessage(requestId: string): Promise<string> {
  const values = [Math.floor(Date.now() / 1000), 'org/app', 'openbanking.org.uk']
  const claims = Object.fromEntries(UK_CLAIMS.map((name, at) => [name, values[at]]))
  const { protected: header, signature } = await new FlattenedSign(Buffer.from(BODY))
    .setProtectedHeader({ alg: 'PS256', kid: 'uk-1', ...claims, crit: UK_CLAIMS })
    .sign(UK.privateKey, { crit: Object.fromEntries(UK_CLAIMS.map((name) => [name, true])) })
  return [
    `POST /accounts/${IBAN}/payments HTTP/1.1`,
    `Host: ${HOST}`,
    `X-Request-ID: ${requestId}`,
    `Content-Length: ${BODY.length}`,
    `x-jws-signature: ${header}..${signature}`,
    'Connection: close',
    '',
    BODY,
  ].join('\r\n')
}

describe('what a client has signed', () => {
  const home = temporaryDirectory({ after })
  const jwksFile = join(home, 'bank.json')
  const messages = new Map<string, string>()
  const responses = new Map<string, string>()
  let whole = ''

  before(async () => {
    const upstream = await startUpstream()
    const publish = ({ jwk }: SigningKey) => writeFileSync(jwksFile, JSON.stringify({ keys: [jwk] }))
    publish(BANK)
    const shopFile = join(home, 'shop.json')
    const ukFile = join(home, 'uk.json')
    const keyFile = join(home, 'signing.pem')
    writeFileSync(ukFile, JSON.stringify({ keys: [UK.jwk] }))
    writeFileSync(keyFile, generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }))
    writeFileSync(shopFile, JSON.stringify({ keys: [SHOP.jwk] }))
    const options = {
      config: {
        upstream: upstream.url,
        dpop: { publicUrls: [`https://${HOST}`] },
        signing: { keyFile, algorithm: 'ed25519' },
        routes: [
          {
            path: '/accounts/{iban}/payments',
            auth: ['signature'],
            mask: ['iban'],
            signatures: { response: true },
          },
          { path: '/open', auth: ['none'] },
        ],
      },
      clients: [
        { id: 'bank', signature: { jwksFile, profile: 'fapi-2' } },
        { id: 'shop', signature: { jwksFile: shopFile, profile: 'fapi-2' } },
        { id: 'uk', signature: { jwksFile: ukFile, profile: 'uk-jws', iss: 'org/app' } },
      ],
      env: { GATEWAY_AUDIT_SEALS: 'on' },
    }
    const send = async (gateway: TestGateway, id: string, key?: SigningKey) => {
      messages.set(id, key === undefined ? await ukMessage(id) : signedMessage(id, key))
      responses.set(id, await sendBytes(gateway.port, String(messages.get(id))))
      assert.equal(statusOf(String(responses.get(id))), 200)
    }
    const first = await startGateway(options)
    await send(first, 'pay-1', BANK)
    await send(first, 'pay-2', BANK)
    await send(first, 'shop-1', SHOP)
    await send(first, 'uk-1')
    assert.equal((await call(`${first.url}/open`, { headers: { 'x-request-id': 'open-1' } })).status, 200)
    await first.end()
    publish(SECOND)
    const second = await startGateway({ ...options, dir: first.dir })
    await send(second, 'pay-3', SECOND)
    await second.end()
    upstream.close()
    whole = readFileSync(second.auditFile, 'utf8')
    cpSync(second.auditFile, join(home, 'data/audit.ndjson'))
    cpSync(join(second.dir, 'audit-log'), join(home, 'data/audit-log'), { recursive: true })
    mkdirSync(join(home, 'bin'))
    // In a test run, the bundled command takes a third of the CPU.
    const { TEST_GATEWAY } = process.env
    const program = TEST_GATEWAY
      ? join(dirname(TEST_GATEWAY), 'cli/countersign.js')
      : join(ROOT, 'gateway/cli/countersign.mjs')
    const command = `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`
    writeFileSync(join(home, 'bin/countersign'), command, { mode: 0o755 })
    const key = run(
      `countersign audit key --show '${join(second.dir, 'data/audit-seal-key.pem')}' > audit.vkey`,
    )
    assert.equal(key.status, 0, key.stderr)
  })

  function run(script: string, requestId = '') {
    const env = { PATH: `${join(home, 'bin')}:${process.env.PATH}`, REQUEST_ID: requestId }
    return spawnSync('bash', ['-c', script], { cwd: home, env, encoding: 'utf8' })
  }

  /** Runs `audit prove`. @returns the check that fails, with its cause; undefined if proven */
  async function failed(
    requestId: string,
    message = String(messages.get(requestId)),
    trail = whole,
    response?: string,
  ) {
    writeFileSync(join(home, 'data/audit.ndjson'), trail)
    writeFileSync(join(home, 'message.http'), message)
    if (response !== undefined) writeFileSync(join(home, 'response.http'), response)
    const at = (name: string) => join(home, name)
    const { status, stdout, stderr } = await countersign([
      ...['audit', 'prove', '--request', requestId, '--message', at('message.http')],
      ...(response === undefined ? [] : ['--response', at('response.http')]),
      ...['--key', at('audit.vkey'), '--json', at('data/audit.ndjson')],
    ])
    assert.ok(stdout !== '', stderr)
    const { proven, checks } = JSON.parse(stdout)
    const last = checks.at(-1)
    assert.deepEqual([status, last.passed], [proven ? 0 : 1, proven])
    return proven ? undefined : `${last.check}: ${last.cause}`
  }

  it('is proven by the command of docs/verify/audit.md, with copied files of a masked trail', () => {
    const document = readFileSync(join(ROOT, 'docs/verify/audit.md'), 'utf8')
    const chapter = document.split('\n## ').find((one) => one.startsWith('What a client has signed\n')) ?? ''
    const [, script = ''] = /^```sh\n([\s\S]*?)^```$/m.exec(chapter) ?? []
    writeFileSync(join(home, 'transfer.http'), String(messages.get('pay-2')))
    const { status, stdout, stderr } = run(script.replaceAll('npx -- ', ''), 'pay-2')
    assert.equal(status, 0, stdout + stderr)
    assert.match(
      stdout,
      /^pass {2}record\npass {2}signed\npass {2}key\npass {2}message\npass {2}body\npass {2}signature\n {6}client bank, key bank-1, ES256 \S{43}\n {6}signed \S+Z, received \S+Z\n {6}covers "@method" "@target-uri" "content-digest" "x-note", and nothing else of the head\nproven\n$/,
    )
    const checks = [...stdout.matchAll(/^pass {2}(\w+)$/gm)].map(([, name]) => name)
    const rows = [...chapter.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name)
    assert.deepEqual(rows, checks)
    assert.ok(!whole.includes(IBAN))
    const verified = run('countersign audit verify --key audit.vkey data/audit.ndjson')
    assert.match(verified.stdout, /, 6 pairs\n[\s\S]*\nproven\n$/)
    assert.doesNotMatch(verified.stdout + verified.stderr, /warning|without/)
  })

  it('is in the trail once for each signed request, and each key once for each process that used it', () => {
    const records = whole
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const keys = records.filter(({ type }) => type === 'SIGNER_KEY')
    assert.deepEqual(
      keys.map(({ clientId, keyId, thumbprint }) =>
        clientId === undefined && keyId === thumbprint ? 'gateway' : `${clientId} ${keyId}`,
      ),
      ['bank bank-1', 'gateway', 'shop shop-1', 'uk uk-1', 'bank bank-1', 'gateway'],
    )
    assert.equal(new Set(keys.map(({ thumbprint }) => thumbprint)).size, 5)
    const signed = records.filter(({ signature }) => signature?.label === 'sig')
    assert.deepEqual(
      signed.map(({ type, requestId, signature }) => [type, requestId, signature.digest]),
      ['pay-1', 'pay-2', 'shop-1', 'pay-3'].map((id) => ['API_REQUEST', id, digestOf(BODY)]),
    )
  })

  it('is proven with the right one of two keys with one name, and not with the other', async () => {
    assert.equal(await failed('pay-1'), undefined)
    assert.equal(await failed('pay-3'), undefined)
    assert.match(
      String(await failed('pay-3', messages.get('pay-1'))),
      /^signature: the message does not bear/,
    )
    assert.match(
      String(await failed('pay-1', signedMessage('pay-1', SECOND))),
      /^signature: the message does not bear/,
    )
  })

  it('is proven for a detached JWS of UK Open Banking, which covers only the body', async () => {
    const message = String(messages.get('uk-1'))
    assert.equal(await failed('uk-1'), undefined)
    assert.equal(await failed('uk-1', message.replace('/payments', '/others')), undefined)
    const { stdout } = run(
      'countersign audit prove --request uk-1 --message message.http --key audit.vkey data/audit.ndjson',
    )
    assert.match(
      stdout,
      / client uk, key uk-1, PS256 \S{43}\n.*\n {6}covers the body, and nothing else of the head\nproven\n$/,
    )
    for (const [from, to, says] of [
      ['12.50', '92.50', /^body: the digest sha-256 is not that of the body$/],
      ['x-jws-signature: e', 'x-jws-signature: f', /^signature: the header in x-jws-signature is not/],
      ['x-jws-signature', 'x-jws', /^signature: the message does not bear/],
    ] as const)
      assert.match(String(await failed('uk-1', message.replace(from, to))), says)
  })

  it('is not proven if a byte of the message or its form is changed', async () => {
    const message = String(messages.get('pay-1'))
    for (const [from, to, says] of [
      ['12.50', '92.50', /^body: the digest sha-256 is not that of the body$/],
      ['X-Note: rent', 'X-Note: gift', /^signature: the signed parts of the message differ/],
      ['urgent=1', 'urgent=0', /^signature: the signed parts of the message differ/],
      ['X-Note: rent', 'X-Note: rent\r\nX-Note: rent', /^signature: the signed parts of the message differ/],
      ['POST', 'PUT', /^message: its method is not POST$/],
      [BODY, `${BODY}\n`, /^message: its Content-Length is 18, but 19 bytes follow its head$/],
      [/\r\n/g, '\n', /^message: its head has a line feed without its carriage return$/],
    ] as const)
      assert.match(String(await failed('pay-1', message.replace(from, to))), says)
  })

  it('is not proven with the message of another client, or for a request without a signature', async () => {
    assert.match(
      String(await failed('pay-1', signedMessage('pay-1', SHOP))),
      /^signature: the message does not bear/,
    )
    assert.match(
      String(await failed('open-1', messages.get('pay-1'))),
      /^signed: the record has no signature$/,
    )
    assert.match(String(await failed('none', messages.get('pay-1'))), /^record: no record of this id/)
  })

  it('is not proven with a changed record', async () => {
    const [record = ''] = /^.*"API_REQUEST","requestId":"pay-1".*$/m.exec(whole) ?? []
    for (const changed of [
      record.replace('"clientId":"bank"', '"clientId":"shop"'),
      record.replace(/,"signature":.*/, '}'),
      record.replace('"thumbprint":"', '"thumbprint":"x'),
    ])
      assert.match(
        String(await failed('pay-1', messages.get('pay-1'), whole.replace(record, changed))),
        /^record: a record is not in the log: it is not sealed yet, or was changed$/,
      )
  })

  it('is not proven without the recorded key, or with a key that somebody put into the trail', async () => {
    const isKey = (line: string) => line.includes('"SIGNER_KEY"') && line.includes('"bank"')
    const lines = whole.trimEnd().split('\n')
    const key = JSON.parse(lines.find(isKey) ?? '')
    const trailWith = (...added: object[]) =>
      `${[...lines.filter((line) => !isKey(line)), ...added.map((one) => JSON.stringify(one))].join('\n')}\n`
    const causeOf = async (trail: string) => String(await failed('pay-1', messages.get('pay-1'), trail))
    assert.match(
      await causeOf(trailWith()),
      /^key: no SIGNER_KEY of bank with the thumbprint \S{43} is in the trail$/,
    )
    assert.match(await causeOf(trailWith({ ...key, jwk: SECOND.jwk })), /^key: no SIGNER_KEY of bank/)
    assert.match(await causeOf(trailWith({ ...key, clientId: 'shop' })), /^key: no SIGNER_KEY of bank/)
    assert.match(
      await causeOf(trailWith({ ...key, timestamp: 'x' })),
      /^key: SIGNER_KEY: a record is not in the log/,
    )
    const injected = `${JSON.stringify({ ...key, jwk: SECOND.jwk })}\n${JSON.stringify({ ...key, timestamp: 'x' })}\n`
    assert.equal(await failed('pay-1', messages.get('pay-1'), injected + whole), undefined)
  })

  it('is proven together with the response that the gateway signed', async () => {
    const response = String(responses.get('pay-1'))
    const causeOf = async (changed: string, id = 'pay-1', message = messages.get('pay-1'), trail = whole) =>
      String(await failed(id, message, trail, changed))
    assert.equal(await causeOf(response), 'undefined')
    assert.match(
      await causeOf(response.replace(' 200 ', ' 201 ')),
      /^message: the status of the response is not 200$/,
    )
    assert.match(
      await causeOf(response.replace('rent', 'gift')),
      /^body: the digest sha-256 is not that of the body$/,
    )
    assert.match(
      await causeOf(response, 'pay-1', messages.get('pay-2')),
      /^signature: the signed parts of the message differ/,
    )
    assert.match(await causeOf(String(responses.get('pay-2'))), /^(body|signature): /)
    assert.match(
      await causeOf(response, 'open-1', messages.get('pay-1')),
      /^signed: the record has no signature$/,
    )
    const isKey = (line: string) => line.includes('"SIGNER_KEY"') && !line.includes('"clientId"')
    const keyless = whole
      .split('\n')
      .filter((line) => !isKey(line))
      .join('\n')
    assert.match(
      await causeOf(response, 'pay-1', messages.get('pay-1'), keyless),
      /^key: no SIGNER_KEY of the gateway/,
    )
  })

  it('is not proven with another seal key, or without one', () => {
    const prove = 'countersign audit prove --request pay-1 --message message.http'
    const other = run(`countersign audit key other.pem > other.vkey && ${prove} --key other.vkey`)
    assert.equal(other.status, 1)
    assert.match(other.stdout, /^FAIL {2}record: the checkpoint of the proof is of the log .*\nNOT PROVEN\n$/)
    const none = run(prove)
    assert.equal(none.status, 2)
    assert.match(none.stderr, /needs --key or \$GATEWAY_AUDIT_SEAL_KEY/)
    assert.match(run('countersign audit prove --request pay-1 --json').stderr, /--json needs --message FILE/)
  })
})
