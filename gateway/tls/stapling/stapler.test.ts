import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, describe, it } from 'node:test'
import { skipWithout } from '../../e2e/other-programs.ts'
import { temporaryDirectory } from '../../storage/temporary-directory.test-support.ts'
import { FILES } from '../listener/connect.test-support.ts'
import { parseTls, type TlsFiles } from '../listener/tls-context.ts'
import { OcspAuthority } from './ocsp-authority.test-support.ts'
import { type Chain, mustStaple, type Staple, Stapler } from './stapler.ts'

const MINUTE_MS = 60_000

describe('what is stapled', { skip: skipWithout('openssl') }, () => {
  const folder = temporaryDirectory({ after })
  const authority = new OcspAuthority(folder)
  authority.issue('renewed', 11)
  const chainOf = (name: string): Chain => {
    const { leaf, issuer } = authority.certificate(name)
    return [leaf, issuer]
  }
  function stapler(chain = chainOf('server')) {
    const state = { nowMs: Date.now(), staple: undefined as Staple | undefined, verdicts: [] as string[] }
    const one = new Stapler({
      chain,
      clock: () => state.nowMs,
      onStaple: (staple) => {
        state.staple = staple
      },
      onVerdict: (fault) => void state.verdicts.push(fault ?? 'good'),
    })
    return { one, state }
  }

  it('is a good response, until it expires', () => {
    const { one, state } = stapler()
    const good = authority.respond()
    one.offer(good)
    assert.deepEqual(state.staple?.der, good)
    state.nowMs += 59 * MINUTE_MS
    one.check()
    assert.deepEqual(state.staple?.der, good)
    state.nowMs += 2 * MINUTE_MS
    one.check()
    one.check()
    assert.equal(state.staple, undefined)
    assert.equal(state.verdicts.length, 2)
    assert.match(state.verdicts[1] ?? '', /^it expired at /)
  })

  it('stays the last good response while that is valid, and each fault of the next is told once', () => {
    const { one, state } = stapler()
    const good = authority.respond()
    one.offer(good)
    for (const bad of ['cannot be read', Buffer.from('nonsense'), authority.respond({ status: 'unknown' })]) {
      one.offer(bad)
      one.check()
      assert.deepEqual(state.staple?.der, good)
    }
    const next = authority.respond({ minutes: 120 })
    one.offer(next)
    assert.deepEqual(state.staple?.der, next)
    assert.deepEqual(
      [state.verdicts.length, state.verdicts[0], state.verdicts[1], state.verdicts[4]],
      [5, 'good', 'cannot be read', 'good'],
    )
  })

  it('is nothing once the authority has revoked the certificate', () => {
    const { one, state } = stapler()
    one.offer(authority.respond())
    one.offer(authority.respond({ status: 'revoked' }))
    assert.equal(state.staple, undefined)
    assert.deepEqual(state.verdicts, ['good', 'the authority has revoked the certificate'])
  })

  it('is for the certificate in force, whichever of the two comes first', () => {
    const { one, state } = stapler()
    const [old, renewed] = [authority.respond(), authority.respond({ name: 'renewed' })]
    one.offer(old)
    one.offer(renewed)
    assert.deepEqual(state.staple?.der, old)
    one.replaceCertificate(chainOf('renewed'))
    assert.deepEqual(state.staple?.der, renewed)
    one.replaceCertificate(chainOf('server'))
    assert.deepEqual(state.staple, undefined)
    one.offer(old)
    assert.equal(state.verdicts.at(-1), 'good')
  })

  it('is nothing where the issuer is not in the file of the certificate', () => {
    const { one, state } = stapler([chainOf('server')[0]])
    one.offer(authority.respond())
    assert.equal(state.staple, undefined)
    assert.match(state.verdicts[0] ?? '', /lacks the certificate of the issuer/)
  })

  it('is demanded by certificates with the TLS feature', () => {
    const { cert, key } = authority.issue('demanding', 12, { more: 'tlsfeature = status_request' })
    assert.equal(mustStaple(new X509Certificate(cert)), true)
    assert.equal(mustStaple(chainOf('server')[0]), false)
    const texts = { cert, key, clientCa: undefined, clientCrl: undefined }
    const warnings = (more: Partial<TlsFiles>) =>
      parseTls({ ...FILES, ...more }, texts, Date.now()).value?.warnings.join() ?? ''
    assert.match(warnings({}), /demands an OCSP response \(Must-Staple\), and tls has neither/)
    assert.equal(warnings({ ocspFile: 'o' }) + warnings({ ocspFetch: true }), '')
  })
})
