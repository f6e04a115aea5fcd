import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Environment } from '../environment.ts'
import { describeFault, type Parsed } from '../faults.ts'
import { loadSettings } from '../load-settings.ts'
import type { Settings } from '../settings.ts'

const PAIR = { certFile: 'c.pem', keyFile: 'k.pem' }
const TLS_ENV = { GATEWAY_TLS_PORT: '8443', GATEWAY_TLS_CERT: 'c.pem', GATEWAY_TLS_KEY: 'k.pem' }

function load(file: object, env: Environment = {}): Parsed<Settings> {
  return loadSettings(env, () => JSON.stringify({ routes: [{ path: '/*', auth: ['none'] }], ...file }))
}

function faults(file: object, env?: Environment): string[] {
  return load(file, env).faults?.map(describeFault) ?? []
}

test('without any of its keys there is no HTTPS listener', () => {
  assert.equal(load({}).value?.tls, undefined)
  assert.equal(load({ tls: {} }).value?.tls, undefined)
})

test('file and environment make one HTTPS listener, the environment first', () => {
  assert.deepEqual(load({}, TLS_ENV).value?.tls, { port: 8443, ...PAIR, ocspFetch: false })
  assert.deepEqual(load({ tls: { port: 1443, ...PAIR } }).value?.tls, {
    port: 1443,
    ...PAIR,
    ocspFetch: false,
  })
  const env = { GATEWAY_TLS_PORT: '0', GATEWAY_TLS_CLIENT_CA: 'ca.pem', GATEWAY_TLS_CLIENT_CRL: 'crl.pem' }
  assert.deepEqual(load({ tls: { port: 1443, ...PAIR } }, env).value?.tls, {
    port: 0,
    ...PAIR,
    clientCaFile: 'ca.pem',
    clientCrlFile: 'crl.pem',
    ocspFetch: false,
  })
  const ticketKeyFile = load({}, { ...TLS_ENV, GATEWAY_TLS_TICKET_KEY: 't' }).value?.tls?.ticketKeyFile
  assert.equal(ticketKeyFile, 't')
})

test('port, certificate and key come together: what is missing is named where the others are', () => {
  const missing = 'is missing: an HTTPS listener needs a port, a certificate and a key'
  assert.deepEqual(faults({}, { GATEWAY_TLS_PORT: '8443' }), [
    `environment: GATEWAY_TLS_CERT: ${missing}`,
    `environment: GATEWAY_TLS_KEY: ${missing}`,
  ])
  assert.deepEqual(faults({ tls: PAIR }), [`config/gateway.json: $.tls.port: ${missing}`])
  assert.deepEqual(faults({ tls: { clientCaFile: 'ca.pem' } }), [
    `config/gateway.json: $.tls.port: ${missing}`,
    `config/gateway.json: $.tls.certFile: ${missing}`,
    `config/gateway.json: $.tls.keyFile: ${missing}`,
  ])
})

test('a revocation list without a client CA is a fault where it is named', () => {
  const reason = 'has no effect without a client CA: set one, or remove the list'
  assert.deepEqual(faults({}, { ...TLS_ENV, GATEWAY_TLS_CLIENT_CRL: 'x' }), [
    `environment: GATEWAY_TLS_CLIENT_CRL: ${reason}`,
  ])
  assert.deepEqual(faults({ tls: { clientCrlFile: 'x' } }, TLS_ENV), [
    `config/gateway.json: $.tls.clientCrlFile: ${reason}`,
  ])
  assert.match(
    String(faults({ tls: { clientOcsp: 'soft' } }, TLS_ENV)),
    /tls\.clientOcsp: has no effect without/,
  )
  assert.equal(load({ tls: { clientOcsp: 'off' } }, TLS_ENV).value?.tls?.clientOcsp, 'off')
})

test('the port of the HTTPS listener is nobody else’s', () => {
  const at = /^environment: GATEWAY_TLS_PORT: must not be the port of the/
  assert.match(faults({ port: 8443 }, TLS_ENV)[0] ?? '', at)
  assert.match(faults({ adminPort: 8443 }, TLS_ENV)[0] ?? '', at)
  assert.match(
    faults({ tls: { port: 8080, ...PAIR } })[0] ?? '',
    /^config\/gateway\.json: \$\.tls\.port: must not/,
  )
  assert.deepEqual(faults({ adminPort: 8443, host: '10.0.0.1' }, TLS_ENV), [])
  assert.deepEqual(faults({ port: 0 }, { ...TLS_ENV, GATEWAY_TLS_PORT: '0' }), [])
})

test('the HTTPS listener must not be its own upstream', () => {
  const own = /^environment: GATEWAY_TLS_PORT: the upstream https:\/\/localhost.* own listener/
  assert.match(faults({ upstream: 'https://localhost:8443' }, TLS_ENV)[0] ?? '', own)
  assert.match(
    faults({ upstream: 'https://localhost' }, { ...TLS_ENV, GATEWAY_TLS_PORT: '443' })[0] ?? '',
    own,
  )
  assert.deepEqual(faults({ upstream: 'http://localhost:8443' }, TLS_ENV), [])
})

test('a ticket key is a fault with a client CA, because sessions of clients with certificates are not resumed', () => {
  const reason =
    'has no effect with a client CA: sessions of clients with certificates are not resumed; remove one of the two'
  const env = { ...TLS_ENV, GATEWAY_TLS_CLIENT_CA: 'ca.pem' }
  assert.deepEqual(faults({}, { ...env, GATEWAY_TLS_TICKET_KEY: 't' }), [
    `environment: GATEWAY_TLS_TICKET_KEY: ${reason}`,
  ])
  assert.deepEqual(faults({ tls: { ticketKeyFile: 't' } }, env), [
    `config/gateway.json: $.tls.ticketKeyFile: ${reason}`,
  ])
})

test('the OCSP response comes from a file or is fetched, not both', () => {
  const reason = 'must not be true with an OCSP file: choose one of the two'
  const env = { ...TLS_ENV, GATEWAY_TLS_OCSP_FETCH: 'true' }
  assert.equal(load({}, env).value?.tls?.ocspFetch, true)
  assert.deepEqual(faults({}, { ...env, GATEWAY_TLS_OCSP: 'o' }), [
    `environment: GATEWAY_TLS_OCSP_FETCH: ${reason}`,
  ])
  assert.match(String(faults({}, { ...TLS_ENV, GATEWAY_TLS_OCSP_FETCH: 'yes' })), /must be true or false/)
})
