import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { loadFile } from '../load-file.ts'
import { oneFile, type Reload, Reloader } from '../reload/reloader.ts'
import { type ClientTable, parseClients } from './clients-file.ts'

function secretOf(seed: number, bytes = 32): string {
  return `whsec_${Buffer.from(Array.from({ length: bytes }, (_, at) => (at * 7 + seed) % 256)).toString('base64')}`
}

const ENV = { FIRST: secretOf(1), SECOND: secretOf(2), THIRD: secretOf(3) }
const THUMBPRINT = '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752'
const SOURCES = {
  env: ENV,
  readFile: (file: string) => {
    if (file === '/run/secrets/acme') return `${secretOf(9)}\n`
    throw Object.assign(new Error(`ENOENT: no such file or directory, open '${file}'`), { code: 'ENOENT' })
  },
}

function parse(clients: unknown, sources = SOURCES) {
  return parseClients('clients.json', JSON.stringify({ clients }), sources)
}

function table(...clients: unknown[]): ClientTable {
  const { value, faults } = parse(clients)
  assert.deepEqual(faults, undefined)
  assert.ok(value)
  return value
}

/** Every fault, without its line. */
function faults(...clients: unknown[]): string[] {
  const parsed = parse(clients)
  assert.ok(parsed.faults, 'no fault was found')
  return parsed.faults.map(({ path, reason }) => `${path}: ${reason}`)
}

function only(...clients: unknown[]): string {
  const [first, ...more] = faults(...clients)
  assert.deepEqual(more, [])
  return first ?? ''
}

const certificate = (id: string, mtls: unknown) => ({ id, mtls })
const hmac = (id: string, keyId: string, ...secrets: unknown[]) => ({ id, hmac: { keyId, secrets } })

const SCHEME = { header: 'X-Sig', algorithm: 'sha256', encoding: 'hex', signed: '{body}' }

it('an mtls object that is empty or has more than three keys breaks the JSON schema too', () => {
  const file = new URL('../../../config/schemas/clients.schema.json', import.meta.url)
  const ajv = new Ajv2020({ strict: false })
  const validate = ajv.compile(JSON.parse(readFileSync(file, 'utf8')))
  const isGood = (mtls: object) => validate({ clients: [{ id: 'a', mtls }] })
  assert.equal(isGood({ subject: 'CN=a', issuer: 'CN=b' }), true)
  assert.equal(isGood({}), false)
  assert.equal(isGood({ subject: 'CN=a', issuer: 'CN=b', psd2Roles: true }), true)
  assert.equal(isGood({ subject: 'CN=a', sanDns: 'a.example', issuer: 'CN=b', psd2Roles: true }), false)
})

describe('a client', () => {
  it('is found by its certificate and by its key, as one caller', () => {
    const client = {
      id: 'acme',
      scopes: ['accounts:read', 'transfers:write'],
      mtls: { thumbprint: THUMBPRINT },
      hmac: { keyId: 'key_acme', secrets: [{ env: 'FIRST' }, { file: '/run/secrets/acme' }] },
    }
    const { rows, byThumbprint, byKeyId } = table(client)
    assert.deepEqual(rows, [client])
    const principal = {
      subject: undefined,
      client: 'acme',
      session: undefined,
      sessionName: undefined,
      expiresAtMs: undefined,
      scopes: new Set(['accounts:read', 'transfers:write']),
      scope: 'accounts:read transfers:write',
      key: 'client:acme',
      limitKey: 'p:client:acme',
    }
    assert.deepEqual(byThumbprint.get(THUMBPRINT), { method: 'mtls', ...principal })
    const key = byKeyId.get('key_acme')
    assert.equal(key?.name, 'key_acme')
    assert.deepEqual(key?.principal, { method: 'hmac', ...principal })
    assert.deepEqual(
      key?.secrets.map((secret) => `whsec_${secret.export().toString('base64')}`),
      [ENV.FIRST, secretOf(9)],
    )
  })

  it('may do nothing that needs a scope unless it is given one', () => {
    const principal = table(certificate('a', { sanDns: 'a.example' })).bySanDns.get('a.example')
    assert.deepEqual(principal?.scopes, new Set())
    assert.equal(principal?.scope, '')
  })

  it('has a principal that nobody can change', () => {
    const { byKeyId } = table(hmac('a', 'key', { env: 'FIRST' }))
    assert.ok(Object.isFrozen(byKeyId.get('key')?.principal))
  })

  it('is known by thumbprint, DNS name, URI or subject of its certificate, each brought to one spelling', () => {
    const colons = THUMBPRINT.toUpperCase().replace(/..(?!$)/g, '$&:')
    const { byThumbprint, bySanDns, bySanUri, bySubject } = table(
      certificate('a', { thumbprint: colons }),
      certificate('b', { sanDns: 'Client.Bank-B.example' }),
      certificate('c', { sanUri: 'spiffe://bank-c.example/Payments' }),
      certificate('d', { subject: 'cn=bank-d, O=Bank D\\, Ltd' }),
    )
    assert.equal(byThumbprint.get(THUMBPRINT)?.client, 'a')
    assert.equal(bySanDns.get('client.bank-b.example')?.client, 'b')
    assert.equal(bySanUri.get('spiffe://bank-c.example/Payments')?.client, 'c')
    assert.equal(bySubject.get('CN="bank-d",O="Bank D, Ltd"')?.client, 'd')
  })

  it('may be tied to issuers of its certificate too, each brought to one spelling', () => {
    const colons = THUMBPRINT.toUpperCase().replace(/..(?!$)/g, '$&:')
    const { issuers } = table(
      certificate('a', { sanDns: 'a.example', issuer: 'cn=Bank CA, O=Bank' }),
      certificate('b', { sanDns: 'b.example', issuer: [colons, 'CN=Next'] }),
      certificate('c', { sanDns: 'c.example' }),
    )
    assert.deepEqual(
      [...issuers],
      [
        ['a', ['CN="Bank CA",O="Bank"']],
        ['b', [THUMBPRINT, 'CN="Next"']],
      ],
    )
  })

  it('is not needed: an empty list knows no machine', () => {
    const { rows, byKeyId, byThumbprint, bySanDns, bySanUri, bySubject } = table()
    assert.deepEqual(rows, [])
    for (const map of [byKeyId, byThumbprint, bySanDns, bySanUri, bySubject]) assert.equal(map.size, 0)
  })

  it('in the file that comes with the gateway needs no environment variable and no secret file', () => {
    const file = new URL('../../../config/clients.json', import.meta.url)
    const sources = { env: {}, readFile: SOURCES.readFile }
    assert.equal(parseClients('clients.json', readFileSync(file, 'utf8'), sources).faults, undefined)
  })
})

describe('a fault in clients.json', () => {
  it('is found in every key, by its path', () => {
    const good = hmac('a', 'key', { env: 'FIRST' })
    const cases: [client: object, sentence: RegExp][] = [
      [{ ...good, id: undefined }, /^\$\.clients\[0\]\.id: is missing/],
      [{ ...good, id: 'a b' }, /^\$\.clients\[0\]\.id: must be 1 to 256 visible ASCII characters/],
      [{ ...good, id: 'x'.repeat(257) }, /^\$\.clients\[0\]\.id: must be 1 to 256/],
      [{ ...good, scope: [] }, /^\$\.clients\[0\]\.scope: is not a known key; did you mean "scopes"\?/],
      [{ ...good, scopes: 'x' }, /^\$\.clients\[0\]\.scopes: must be an array, but is "x"/],
      [{ ...good, scopes: ['a b'] }, /^\$\.clients\[0\]\.scopes\[0\]: must be 1 to 128 visible/],
      [{ ...good, scopes: ['a', 'a'] }, /^\$\.clients\[0\]\.scopes: must not hold "a" twice/],
      [
        { id: 'a' },
        /^\$\.clients\[0\]: must have "mtls", "hmac" or "signature", which prove who calls; or only/,
      ],
      [{ id: 'a', plan: 'b', scopes: ['c'] }, /^\$\.clients\[0\]\.scopes: must not .* its token/],
      [certificate('a', 'x'), /^\$\.clients\[0\]\.mtls: must be an object, but is "x"/],
      [
        certificate('a', { issuer: 'CN=x' }),
        /^\$\.clients\[0\]\.mtls: must have exactly one of "thumbprint", /,
      ],
      [
        certificate('a', { sanDns: 'a.example', issuer: 'nobody' }),
        /^\$\.clients\[0\]\.mtls\.issuer: must be the subject of an authority, such as/,
      ],
      [
        certificate('a', { thumbprint: THUMBPRINT, sanDns: 'a.example', issuer: 'CN=x', psd2Roles: true }),
        /^\$\.clients\[0\]\.mtls: must have at most 3 keys, but has 4$/,
      ],
      [certificate('a', {}), /^\$\.clients\[0\]\.mtls: must not be empty$/],
      [
        certificate('a', { thumbprint: THUMBPRINT, sanDns: 'a.example' }),
        /^\$\.clients\[0\]\.mtls: must have exactly one of /,
      ],
      [
        certificate('a', { organizationIdentifier: 'DE-BAFIN-1' }),
        /\.organizationIdentifier: must be an identifier such as "PSDDE-BAFIN-123456", but/,
      ],
      [certificate('a', { psd2Roles: true }), /^\$\.clients\[0\]\.mtls: must have exactly one of /],
      [certificate('a', { thumbPrint: THUMBPRINT }), /\.mtls\.thumbPrint: .*did you mean "thumbprint"\?/],
      [certificate('a', { thumbprint: THUMBPRINT.slice(2) }), /\.thumbprint: must be the 64 hexadecimal/],
      [certificate('a', { thumbprint: `${THUMBPRINT}00` }), /\.thumbprint: must be the 64 hexadecimal/],
      [certificate('a', { thumbprint: THUMBPRINT.replace('6', 'g') }), /\.thumbprint: must be the 64/],
      [certificate('a', { sanDns: '*.bank.example' }), /\.sanDns: must be a DNS name without a wildcard/],
      [certificate('a', { sanDns: 'bank.example.' }), /\.sanDns: must be a DNS name .* closing dot/],
      [certificate('a', { sanDns: 'a b' }), /\.sanDns: must be a DNS name/],
      [certificate('a', { sanUri: 'bank.example' }), /\.sanUri: must be a URI with its scheme/],
      [certificate('a', { subject: '' }), /\.subject: must not be empty/],
      [
        certificate('a', { subject: 'bank-b' }),
        /\.subject: must be a name such as "CN=bank-b,O=Bank B,C=DE"/,
      ],
      [certificate('a', { subject: '/C=DE/CN=bank-b' }), /\.subject: must be a name such as/],
      [{ id: 'a', hmac: 7 }, /^\$\.clients\[0\]\.hmac: must be an object$/],
      [
        { id: 'a', hmac: { scheme: 'acme', secrets: [{ env: 'FIRST' }] } },
        /\.scheme: must be "standard", "svix"/,
      ],
      [
        { id: 'a', hmac: { scheme: { ...SCHEME, header: 'X Sig' }, secrets: [{ env: 'FIRST' }] } },
        /\.scheme\.header: must be the name of a header/,
      ],
      [
        {
          id: 'a',
          hmac: {
            scheme: { ...SCHEME, signed: '{body}{id}', idHeader: 'X-Id' },
            secrets: [{ env: 'FIRST' }],
          },
        },
        /\.scheme\.signed: must have a text before \{id\}/,
      ],
      [{ id: 'a', hmac: { keyId: 'k' } }, /\.hmac\.secrets: is missing/],
      [hmac('a', 'k k', { env: 'FIRST' }), /\.hmac\.keyId: must be 1 to 128 characters of /],
      [hmac('a', 'k'), /\.hmac\.secrets: must not be empty/],
      [hmac('a', 'k', {}), /\.secrets\[0\]: must be \{"env": "VARIABLE"\} or \{"file": "\/path"\}: /],
      [hmac('a', 'k', { env: 'FIRST', file: '/f' }), /\.secrets\[0\]: must be \{"env": /],
      [hmac('a', 'k', { env: 'first' }), /\.env: must be the name of an environment variable, in capitals/],
      [hmac('a', 'k', { file: 'acme' }), /\.file: must be a path that begins with "\/", "\.\/" or "\.\.\/"/],
    ]
    for (const [client, sentence] of cases) assert.match(only(client), sentence)
    for (const client of [null, 7, 'a', []]) {
      assert.match(faults(client)[0] ?? '', /^\$\.clients\[0\]: must be an object, but is /)
    }
    for (const part of [null, 7, 'a', []]) {
      assert.match(only({ id: 'a', mtls: part }), /^\$\.clients\[0\]\.mtls: must be an object, but is /)
      assert.match(only({ id: 'a', hmac: part }), /^\$\.clients\[0\]\.hmac: must be an object$/)
    }
  })

  it('is found in the shape of the whole file too', () => {
    const reasons = (text: string) =>
      parseClients('clients.json', text, SOURCES).faults?.map((one) => one.reason)
    assert.deepEqual(reasons('{"client": []}'), ['is not a known key; did you mean "clients"?'])
    assert.deepEqual(reasons('[]'), ['must be an object, but is an empty array'])
    assert.match(reasons('{"clients": [}')?.[0] ?? '', /expected a value/)
    assert.match(reasons('{"clients": {}}')?.[0] ?? '', /must be an array/)
  })

  it('does not hide what else is wrong in the same client', () => {
    const client = { ...hmac('a', 'k', { env: 'NONE' }), scopes: 'x', mtls: { sanDns: '*' } }
    assert.deepEqual(
      faults(client).map((fault) => fault.split(':')[0]),
      ['$.clients[0].scopes', '$.clients[0].mtls.sanDns', '$.clients[0].hmac.secrets[0]'],
    )
  })

  it('is told with all the others, in the order of the file, with its line', () => {
    const text = `{"clients": [
      {"id": "a", "mtls": {"sanDns": "*"}},
      {"id": "a", "hmac": {"keyId": "k", "secrets": [{"env": "NONE"}]}},
      {"id": "b"}
    ]}`
    const found = parseClients('my/clients.json', text, SOURCES).faults ?? []
    assert.deepEqual(
      found.map(({ file, path, at }) => `${file} ${path} (line ${at?.line})`),
      [
        'my/clients.json $.clients[0].mtls.sanDns (line 2)',
        'my/clients.json $.clients[1].id (line 3)',
        'my/clients.json $.clients[1].hmac.secrets[0] (line 3)',
        'my/clients.json $.clients[2] (line 4)',
      ],
    )
  })
})

describe('two clients', () => {
  it('must not share an id, a key id, a secret or a certificate, however it is written', () => {
    const cases: [one: object, other: object, fault: string][] = [
      [
        certificate('a', { sanDns: 'a.example' }),
        certificate('a', { sanDns: 'b.example' }),
        '.id: is the same id as $.clients[0].id',
      ],
      [
        hmac('a', 'key', { env: 'FIRST' }),
        hmac('b', 'key', { env: 'SECOND' }),
        '.hmac.keyId: is the same keyId as $.clients[0].hmac.keyId',
      ],
      [
        certificate('a', { thumbprint: THUMBPRINT }),
        certificate('b', { thumbprint: THUMBPRINT.toUpperCase() }),
        '.mtls.thumbprint: is the same thumbprint as $.clients[0].mtls.thumbprint',
      ],
      [
        certificate('a', { sanDns: 'a.example' }),
        certificate('b', { sanDns: 'A.example' }),
        '.mtls.sanDns: is the same sanDns as $.clients[0].mtls.sanDns',
      ],
      [
        certificate('a', { sanUri: 'urn:a' }),
        certificate('b', { sanUri: 'urn:a' }),
        '.mtls.sanUri: is the same sanUri as $.clients[0].mtls.sanUri',
      ],
      [
        certificate('a', { subject: 'CN=a,O=b' }),
        certificate('b', { subject: 'cn=a, o=b' }),
        '.mtls.subject: is the same subject as $.clients[0].mtls.subject',
      ],
      [
        certificate('a', { organizationIdentifier: 'PSDDE-BAFIN-1' }),
        certificate('b', { organizationIdentifier: 'PSDDE-BAFIN-1' }),
        '.mtls.organizationIdentifier: is the same organizationIdentifier as $.clients[0].mtls.organizationIdentifier',
      ],
    ]
    for (const [one, other, fault] of cases) assert.equal(only(one, other), `$.clients[1]${fault}`)
    const sources = { ...SOURCES, env: { ...ENV, SECOND: ENV.FIRST } }
    const shared = parse([hmac('a', 'k', { env: 'FIRST' }), hmac('b', 'l', { env: 'SECOND' })], sources)
    assert.match(
      shared.faults?.[0]?.reason ?? '',
      /^holds the same secret as \$\.clients\[0\]\.hmac\.secrets\[0\]/,
    )
  })

  it('may differ only in the letter case of a URI or a key id', () => {
    const { bySanUri, byKeyId } = table(
      certificate('a', { sanUri: 'urn:a' }),
      certificate('b', { sanUri: 'urn:A' }),
      hmac('c', 'key', { env: 'FIRST' }),
      hmac('d', 'KEY', { env: 'SECOND' }),
    )
    assert.equal(bySanUri.size, 2)
    assert.equal(byKeyId.size, 2)
  })
})

describe('a secret', () => {
  it('that cannot be read is a fault that names its place', () => {
    const at = '$.clients[0].hmac.secrets[0]:'
    assert.equal(only(hmac('a', 'k', { env: 'NONE' })), `${at} the environment variable NONE is not set`)
    assert.equal(
      only(hmac('a', 'k', { file: './none' })),
      `${at} the file "./none" cannot be read: ENOENT: no such file or directory`,
    )
  })

  it('in the file itself is refused with a sentence that says where it belongs, and is not repeated', () => {
    const secret = secretOf(5)
    const bare = secret.slice('whsec_'.length)
    const inline: unknown[] = [
      hmac('a', 'k', secret),
      hmac('a', 'k', bare),
      hmac('a', 'k', { value: secret }),
      hmac('a', 'k', { [secret]: true }),
      hmac('a', 'k', { env: secret }),
      hmac('a', 'k', { env: bare }),
      hmac('a', 'k', { file: secret }),
      hmac('a', 'k', { file: bare }),
      hmac('a', secret, { env: 'FIRST' }),
      hmac('a', bare, { env: 'FIRST' }),
      { id: 'a', hmac: { keyId: 'k', secret } },
      { id: 'a', hmac: { keyId: 'k', secrets: secret } },
      { id: 'a', hmac: { keyId: 'k', secrets: bare } },
      { id: 'a', hmac: secret },
      { id: 'a', hmac: bare },
      { id: 'a', hmac: { [secret]: 'k' } },
      { id: 'a', secret, mtls: { sanDns: 'a.example' } },
      { id: `a ${secret}`, mtls: { sanDns: 'a.example' } },
      { id: 'a', mtls: secret },
    ]
    for (const client of inline) {
      const told = faults(client).join('\n')
      assert.ok(!told.includes(bare.slice(0, 12)), told)
    }
    const sentence =
      'must be {"env": "VARIABLE"} or {"file": "/path"}: a secret stands in the environment or in a file of its own, never in this one'
    assert.equal(only(inline[0]), `$.clients[0].hmac.secrets[0]: ${sentence}`)
    assert.ok(only(inline[2]).endsWith(sentence))
    assert.ok(only(hmac('a', 'k', { file: '/run/secrets/acme' }, secret)).endsWith(sentence))
    assert.ok(faults(inline[10]).some((fault) => fault.endsWith('did you mean "secrets"?')))
  })

  it('without its quotation marks is not repeated by the fault either', () => {
    for (const misplaced of [
      'MfKQrGKYqrTwjUPDILPZIo',
      'MfKQ+GKY/rTwjUPDILPZIo==',
      '{} "MfKQrGKYqrTwjUPDILPZIo"',
    ]) {
      const { faults: found } = parseClients('clients.json', `{"clients": [${misplaced}]}`, SOURCES)
      assert.equal(found?.length, 1)
      assert.ok(!JSON.stringify(found).includes('MfKQ'), JSON.stringify(found))
    }
    const short = parseClients('clients.json', '{"clients": [True]}', SOURCES).faults
    assert.match(short?.[0]?.reason ?? '', /unexpected "True"/)
  })

  it('cannot be seen in a table, nor in its JSON', () => {
    const value = table(hmac('a', 'k', { env: 'FIRST' }))
    const shown = JSON.stringify([...value.byKeyId.values(), value.rows])
    assert.ok(!shown.includes(ENV.FIRST.slice(6)))
    assert.match(shown, /"secrets":\[\{"env":"FIRST"\}\]/)
  })

  it('makes another table when it changes, and an equal one when it does not', () => {
    const client = hmac('a', 'k', { env: 'FIRST' })
    const [one, same] = [parse([client]).value, parse([client]).value]
    const other = parse([client], { ...SOURCES, env: { ...ENV, FIRST: secretOf(77) } }).value
    assert.ok(one && same && other)
    assert.equal(isDeepStrictEqual(one, same), true)
    assert.equal(isDeepStrictEqual(one, other), false)
  })
})

describe('clients.json under a running gateway', () => {
  function live(t: TestContext) {
    const directory = temporaryDirectory(t)
    const [file, secret] = [join(directory, 'clients.json'), join(directory, 'secret')]
    const write = (...clients: unknown[]) => writeFileSync(file, JSON.stringify({ clients }))
    writeFileSync(secret, secretOf(1))
    write(hmac('a', 'key', { file: secret }))
    const loaded = loadFile(file, (name, text) => parseClients(name, text)).value
    assert.ok(loaded)
    const reloads: Reload<ClientTable>[] = []
    const inForce = { table: loaded.value }
    const reloader = new Reloader({
      ...oneFile(file, loaded, (name, text) => parseClients(name, text)),
      swap: (value) => {
        inForce.table = value
      },
      onReload: (reload) => reloads.push(reload),
      intervalMs: 3_600_000,
    })
    t.after(() => reloader.stop())
    return { secret, write, reloader, reloads, inForce }
  }

  it('is in force when it changes, with the secrets of that moment', async (t) => {
    const { secret, write, reloader, reloads, inForce } = live(t)
    writeFileSync(secret, secretOf(2))
    write(hmac('a', 'key', { file: secret }), certificate('b', { sanDns: 'b.example' }))
    await reloader.check()
    assert.equal(reloads[0]?.result, 'success')
    const [key] = inForce.table.byKeyId.get('key')?.secrets ?? []
    assert.equal(`whsec_${key?.export().toString('base64')}`, secretOf(2))
    assert.equal(inForce.table.bySanDns.size, 1)
  })

  it('is not put in force with a bad secret, which the fault names', async (t) => {
    const { secret, write, reloader, reloads, inForce } = live(t)
    const before = inForce.table
    writeFileSync(secret, 'whsec_short')
    write(hmac('b', 'key', { file: secret }))
    await reloader.check()
    await reloader.check()
    assert.equal(inForce.table, before)
    const [reload] = reloads
    assert.ok(reload?.result === 'failure')
    assert.equal(reload.faults[0]?.path, '$.clients[0].hmac.secrets[0]')
  })
  it('is put in force once a missing secret is there', async (t) => {
    const { secret, write, reloader, reloads } = live(t)
    rmSync(secret)
    write(hmac('b', 'key', { file: secret }))
    for (let look = 0; look < 3; look++) await reloader.check()
    writeFileSync(secret, secretOf(3))
    await reloader.check()
    assert.deepEqual(
      reloads.map(({ result }) => result),
      ['failure', 'success'],
    )
  })
})

it('an entry without "mtls", "hmac" and "signature" gives a plan to the app that a token names', () => {
  const { plans, rows } = table(
    { id: 'https://idp.example#app', plan: 'gold' },
    { ...certificate('b', { sanDns: 'b' }) },
  )
  assert.deepEqual([...plans], [['https://idp.example#app', 'gold']])
  assert.equal(rows.length, 2)
})
