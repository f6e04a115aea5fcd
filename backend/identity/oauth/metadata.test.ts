import assert from 'node:assert/strict'
import { it } from 'node:test'
import { metadata } from './policy.ts'

it('metadata names the endpoints for certificates where they are at another address', () => {
  assert.deepEqual(metadata({ mtlsUrl: 'https://mtls.example.com:8443' }).mtls_endpoint_aliases, {
    token_endpoint: 'https://mtls.example.com:8443/oauth/token',
    revocation_endpoint: 'https://mtls.example.com:8443/oauth/revoke',
    pushed_authorization_request_endpoint: 'https://mtls.example.com:8443/oauth/par',
  })
  assert.equal(metadata({ mtlsUrl: undefined }).mtls_endpoint_aliases, undefined)
})
