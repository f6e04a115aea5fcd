import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { makeAuthority } from '../tls/demo/throw-away-ca.ts'
import { describeFault } from './faults.ts'
import { loadAttestation } from './witness-settings.ts'

/** Verifier key of the public key that has the byte 1 thirty-two times. */
const KEY = 'w.example/1+0c86045d+BAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB'
const { certPem } = await makeAuthority({ subject: 'CN=Stamps' })
const FILES: Record<string, string> = { 'ca.pem': `Two:\n${certPem}${certPem}`, 'none.pem': 'none' }
FILES['cut.pem'] = `${certPem}${certPem.slice(0, 200)}`

type Written = Parameters<typeof loadAttestation>[0]['written']

function load(written: Partial<Written>) {
  const readFile = (name: string) => {
    const text = FILES[name]
    if (text === undefined) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' })
    return text
  }
  const sources = { witnesses: undefined, stamps: undefined, ...written }
  return loadAttestation({ configFile: 'gateway.json', written: sources, readFile })
}

describe('settings of witnesses and time stamps', () => {
  it('have the certificates in the files', () => {
    const { value } = load({
      witnesses: { quorum: 1, every: '1m', members: [{ url: 'https://w.example/', key: KEY }] },
      stamps: { url: 'http://tsa.example/', every: '1s', authorityFile: 'ca.pem', caFile: 'ca.pem' },
    })
    assert.deepEqual(value?.witnesses?.members, [{ url: 'https://w.example', key: KEY, ca: undefined }])
    assert.equal(value?.stamps?.authorities.length, 2)
    assert.equal(value?.stamps?.ca, `${certPem}${certPem}`.trim())
    assert.deepEqual(load({}).value, { witnesses: undefined, stamps: undefined })
  })

  it('are refused quickly for a file of certificates that begin but never end', () => {
    FILES['begun.pem'] = '-----BEGIN CERTIFICATE-----\n'.repeat(100_000)
    const stamps = { url: 'http://tsa.example/', every: '1s', authorityFile: 'begun.pem' }
    assert.match(load({ stamps }).faults?.map(describeFault).join() ?? '', /certificate/)
  })

  it('may have witnesses and quorum from a policy file, which are then not in gateway.json', () => {
    const policyFile = 'w.policy'
    FILES[policyFile] = `witness a ${KEY} https://w.example/\nquorum a\n`
    const { value } = load({ witnesses: { every: '1m', policyFile } })
    const members = [{ url: 'https://w.example', key: KEY, ca: undefined }]
    assert.deepEqual(value?.witnesses, {
      quorum: { least: 1, members: [KEY] },
      everyMs: 60_000,
      members,
    })
    const refused = (text: string, more: object = {}) => {
      FILES[policyFile] = text
      return load({ witnesses: { every: '1m', policyFile, ...more } }).faults?.map(
        ({ path, reason }) => `${path} ${reason}`,
      )
    }
    const place = '$.audit.witnesses.policyFile names w.policy'
    assert.deepEqual(refused('quorum a'), [
      `${place}, and that is no policy: line 1 names "a", which no line before defines`,
    ])
    assert.deepEqual(refused(`witness a ${KEY}\nquorum a`), [
      `${place}: the URL of the witness a is missing, so that it cannot be asked`,
    ])
    assert.deepEqual(refused('quorum none'), [`${place}, whose quorum is none: leave "witnesses" out`])
    assert.match(refused('quorum none', { quorum: 1 })?.join() ?? '', /must have either "policyFile", or/)
    assert.match(
      load({ witnesses: { every: '1m' } }).faults?.[0]?.reason ?? '',
      /must have either "policyFile", or/,
    )
  })

  it('are refused with each fault at its place', () => {
    const { faults } = load({
      witnesses: {
        quorum: 4,
        every: '1s',
        members: [
          { url: 'ftp://w.example', key: KEY },
          { url: 'http://w.example', key: KEY.replace('w.example/1', 'w.example/2') },
          { url: 'http://w.example', key: `log.example${KEY.slice(11).replace('+BAEB', '+AQEB')}` },
        ],
      },
      stamps: { url: 'tsa', every: '1s', authorityFile: 'none.pem', caFile: 'missing.pem' },
    })
    const said = faults?.map(({ path, reason }) => `${path} ${reason}`) ?? []
    const expected = [
      /^\$\.audit\.witnesses\.members\[0\]\.url must be an http or https URL/,
      /^\$\.audit\.witnesses\.members\[1\]\.key has the key id 0c86045d, but its key has /,
      /^\$\.audit\.witnesses\.members\[2\]\.key must be the key of a witness, of signature type 4 or 6, but is of type 1/,
      /^\$\.audit\.witnesses\.quorum must be at most the number of witnesses, 3/,
      /^\$\.audit\.stamps\.url must be an http or https URL/,
      /^\$\.audit\.stamps\.authorityFile must name a file that holds certificates in PEM/,
      /^\$\.audit\.stamps\.caFile names a file that is not usable: /,
    ]
    assert.equal(said.length, expected.length, said.join('\n'))
    for (const [index, pattern] of expected.entries()) assert.match(said[index] ?? '', pattern)
  })

  it('are refused for a file whose last certificate lacks its end', () => {
    const stamps = { url: 'http://tsa.example/', every: '1s', authorityFile: 'cut.pem' }
    assert.deepEqual(
      load({ stamps }).faults?.map(({ path, reason }) => `${path} ${reason}`),
      ['$.audit.stamps.authorityFile must name a file that holds certificates in PEM'],
    )
  })

  it('must not name one key twice, which would count twice', () => {
    const members = [
      { url: 'http://a.example', key: KEY },
      { url: 'http://b.example', key: KEY },
    ]
    const { faults } = load({ witnesses: { quorum: 2, every: '1s', members } })
    assert.deepEqual(
      faults?.map(({ path, reason }) => `${path} ${reason}`),
      ['$.audit.witnesses.members[1].key must not be the key of $.audit.witnesses.members[0] too'],
    )
  })
})
