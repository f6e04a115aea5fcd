import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseClients } from './clients-file.ts'
import { profileOf } from './signature-profiles.ts'

const DESCRIBED = { components: ['@method'], maxAge: '60s', algorithms: ['ES256'] as const }
const FILES: Readonly<Record<string, string>> = { good: '{"keys":[]}', text: 'x', list: '[]' }

function faultsOf(...signatures: readonly unknown[]): string {
  const clients = signatures.map((signature, index) => ({ id: `client-${index}`, signature }))
  const readFile = (file: string) => FILES[file] ?? assert.fail('ENOENT: no such file or directory')
  const { faults = [] } = parseClients('clients.json', JSON.stringify({ clients }), { env: {}, readFile })
  return faults.map(({ path, reason }) => `${path}: ${reason}`).join('\n')
}

const withProfile = (changes: object) => faultsOf({ jwksFile: 'good', profile: { ...DESCRIBED, ...changes } })

test('a described profile has the identifiers of its components, whatever the order of their parameters', () => {
  const components = ['@method', '@query-param;name="a%20b"', 'x-note;sf;key="a"', 'content-digest']
  assert.deepEqual(profileOf({ profile: { ...DESCRIBED, components } }), {
    form: 'rfc-9421',
    components: ['"@method"', '"@query-param";name="a%20b"', '"x-note";key="a";sf', '"content-digest"'],
    whenSent: [],
    tag: undefined,
    maxAgeMs: 60_000,
    algorithms: ['ES256'],
  })
})

test('a bad part of a profile is a fault at its place', () => {
  const at = String.raw`^\$\.clients\[0\]\.signature\.profile`
  for (const component of [
    '@status',
    '@unknown',
    '@query-param',
    '@query-param;name="a b"',
    '@query-param;name="a~b"',
    '@method;name="x"',
    'Date',
    'a b',
    '',
    'x;',
    'x;"',
  ])
    assert.match(
      withProfile({ components: [component] }),
      new RegExp(String.raw`${at}\.components\[0\]: must be`),
    )
  assert.match(withProfile({ components: [] }), /components: must not be empty/)
  assert.match(withProfile({ components: ['@path', '@path'] }), /twice/)
  assert.match(withProfile({ maxAge: '6m' }), new RegExp(String.raw`${at}\.maxAge: must be at most "5m"`))
  assert.match(withProfile({ maxAge: undefined }), /maxAge: is missing/)
  assert.match(withProfile({ algorithms: ['RS256'] }), /algorithms\[0\]: must be "ES256", /)
  assert.match(withProfile({ tag: 'a"b' }), /tag: must be 1 to 128 ASCII/)
  assert.match(
    faultsOf({ jwksFile: 'good', profile: 'fapi' }),
    /profile: must be "fapi-2", "uk-jws", "berlin-group", or an object/,
  )
})

test('uk-jws has its claims, and no other profile has them', () => {
  const uk = { jwksFile: 'good', profile: 'uk-jws' }
  assert.equal(
    faultsOf({ ...uk, iss: 'org/app' }, { profile: 'berlin-group', jwksFile: 'text' }).split(':')[0],
    '$.clients[1].signature.jwksFile',
  )
  assert.match(faultsOf(uk), /signature\.iss: is missing: uk-jws needs it/)
  for (const profile of ['fapi-2', 'berlin-group', DESCRIBED])
    for (const claim of ['iss', 'tan'])
      assert.match(
        faultsOf({ jwksFile: 'good', profile, [claim]: 'a' }),
        new RegExp(String.raw`signature\.${claim}: must not be set: only uk-jws has it`),
      )
  assert.deepEqual(profileOf({ profile: 'uk-jws', iss: 'org/app' }), {
    form: 'uk-jws',
    iss: 'org/app',
    tan: 'openbanking.org.uk',
    maxAgeMs: 300_000,
  })
})

test('a client has keys of its own, at one https or loopback URL or in one file', () => {
  const profile = 'fapi-2'
  assert.match(faultsOf({ profile }), /signature: must have either "jwksUri" or "jwksFile"/)
  assert.match(
    faultsOf({ profile, jwksFile: 'good', jwksUri: 'https://a.example' }),
    /signature: must have either "jwksUri" or "jwksFile"/,
  )
  assert.match(faultsOf({ profile, jwksUri: 'http://a.example/jwks' }), /jwksUri: must be https, or on this/)
  assert.match(faultsOf({ profile, jwksUri: 'a' }), /jwksUri: must be an http or https URL/)
  assert.equal(faultsOf({ profile, jwksUri: 'http://127.0.0.1/jwks' }), '')
  assert.match(
    faultsOf({ profile, jwksFile: 'none' }),
    /jwksFile: names a file that is not usable: none: .*: cannot be read: ENOENT/,
  )
  assert.match(faultsOf({ profile, jwksFile: 'text' }), /jwksFile: names a file that is no JWK Set$/)
  assert.match(faultsOf({ profile, jwksFile: 'list' }), /jwksFile: names a file that is no JWK Set$/)
  const same = { profile, jwksUri: 'https://a.example/jwks' }
  assert.match(
    faultsOf(same, same),
    /\$\.clients\[1\]\.signature\.jwksUri: is the same jwksUri as \$\.clients\[0\]/,
  )
})
