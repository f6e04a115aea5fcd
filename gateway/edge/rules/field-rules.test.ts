import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { foldedName, isProtectedName, REMOVED_HEADERS, ruleOf } from './field-rules.ts'

/** Written out here, so that no name can leave the list of the rules unseen. */
const CLAIMS: readonly string[] = [
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'cf-pseudo-ipv4',
  'fastly-client-ip',
  'fly-client-ip',
  'forwarded-for',
  'front-end-https',
  'proxy',
  'true-client-ip',
  'wl-proxy-client-ip',
  'x-amzn-oidc-identity',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-client-dn',
  'x-client-i-dn',
  'x-client-ip',
  'x-client-s-dn',
  'x-cluster-client-ip',
  'x-forward-for',
  'x-forwarded',
  'x-host',
  'x-http-host-override',
  'x-override-url',
  'x-proxyuser-ip',
  'x-real-ip',
  'x-revoke-session',
  'x-rewrite-url',
  'x-scheme',
  'x-url-scheme',
  'x-userinfo',
]
/** Likewise, the beginnings of names. */
const CLAIM_PREFIXES: readonly string[] = [
  'cf-access-authenticated-user-',
  'client-cert',
  'proxy-client-',
  'proxy-ssl-',
  'proxy-user',
  'remote-',
  'ssl-',
  'tls-client-',
  'x-amzn-mtls-',
  'x-appengine-',
  'x-arr-',
  'x-auth-',
  'x-authenticated-',
  'x-authentik-',
  'x-client-cert',
  'x-client-issuer',
  'x-client-ssl',
  'x-client-subject',
  'x-client-verify',
  'x-consumer-',
  'x-credential-',
  'x-envoy-',
  'x-forwarded-',
  'x-goog-authenticated-user-',
  'x-ms-client-principal',
  'x-mtls-',
  'x-original-',
  'x-remote-',
  'x-ssl-',
  'x-tls-',
  'x-webauth-',
]

describe('the rule of a field', () => {
  it('is the same however many names were made up in between', () => {
    assert.equal(ruleOf('x-ssl-anything').upstream, 'dropped')
    for (let i = 0; i < 2000; i++) assert.equal(ruleOf(`x-made-up-${i}`).upstream, 'copied')
    assert.equal(ruleOf('x-ssl-anything').upstream, 'dropped')
    assert.equal(ruleOf('x.y').odd, true)
  })

  it('calls every name odd that has more than letters, digits and hyphens', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[!#$%&'*+.^_`|~0-9a-z-]{1,12}$/), (name) => {
        assert.equal(ruleOf(name).odd, /[^0-9a-z-]/.test(name))
      }),
    )
  })

  it('keeps each repeated singleton apart from the others', () => {
    const names = ['authorization', 'content-length', 'transfer-encoding', 'host', 'x-api-key', 'webhook-id']
    assert.equal(new Set(names.map((name) => ruleOf(name).once)).size, names.length)
    assert.ok(names.every((name) => ruleOf(name).once > 0))
  })

  it('hides from the service every claim of who and where the caller is, also folded', () => {
    for (const name of [...CLAIMS, ...CLAIM_PREFIXES.map((prefix) => `${prefix}a`)]) {
      assert.equal(ruleOf(name).upstream, 'dropped', name)
      assert.equal(isProtectedName(foldedName(name.replaceAll('-', '_'))), true, name)
    }
  })

  it('is in the table of the reference for every field that is not passed on unchanged', () => {
    const listed = new Map(
      REMOVED_HEADERS.flatMap(({ names, logged }) => names.map((name) => [name, logged])),
    )
    for (const name of [...CLAIMS, ...CLAIM_PREFIXES.map((prefix) => `${prefix}*`)])
      assert.equal(listed.get(name), true, name)
    for (const [name, logged] of listed) {
      if (name.includes(' ')) continue
      const { upstream, removedAs } = ruleOf(name.replace('*', 'a'))
      assert.notEqual(upstream, 'copied', name)
      assert.equal(removedAs, logged ? name : undefined)
    }
    fc.assert(
      fc.property(
        fc.constantFrom(...listed.keys(), ...CLAIMS),
        fc.stringMatching(/^[a-z0-9-]{0,9}$/),
        (name, end) => {
          const { upstream, removedAs } = ruleOf(name.replace('*', end).replaceAll(' ', '-'))
          if (upstream === 'dropped' && removedAs !== undefined)
            assert.equal(listed.get(removedAs), true, removedAs)
        },
      ),
    )
  })

  it('refuses a method override, also folded', () => {
    for (const name of [
      'x-http-method',
      'x-http-method-override',
      'x-method-override',
      'x_http_method',
      'x.method.override',
    ])
      assert.equal(ruleOf(name).upstream, 'refused', name)
  })

  it('recognises names that clients make up', () => {
    for (const [name, told] of [
      ['x-auth-anything', 'x-auth-*'],
      ['x_auth_anything', 'x-auth-*'],
      ['x.real.ip', 'x-real-ip'],
      ['x-forwarded-made-up', 'x-forwarded-*'],
      ['connection', undefined],
      ['host', undefined],
    ] as const)
      assert.equal(ruleOf(name).removedAs, told, name)
  })

  it('takes every name that means something here as protected, also folded', () => {
    for (const name of [
      'transfer_encoding',
      'x.auth.subject',
      'client!cert',
      'x_forwarded_for',
      'proxy',
      'via',
    ])
      assert.equal(isProtectedName(foldedName(name)), true, name)
    assert.equal(isProtectedName('x-custom'), false)
  })
})
