import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Environment } from './environment.ts'
import { describeFault } from './faults.ts'
import { loadSettings } from './load-settings.ts'

const ENDPOINT = 'http://collector:4318/v1/traces'
const ROUTES = [{ path: '/*', auth: ['none'] }]

function load(
  tracing: object | undefined,
  env: Environment = {},
  files: Readonly<Record<string, string>> = {},
) {
  return loadSettings(
    env,
    (file) => files[file] ?? JSON.stringify({ routes: ROUTES, ...(tracing && { tracing }) }),
  )
}

function good(...sources: Parameters<typeof load>) {
  const { value, faults } = load(...sources)
  assert.equal(faults, undefined)
  return value?.tracing
}

function faults(...sources: Parameters<typeof load>): string[] {
  return load(...sources).faults?.map(describeFault) ?? []
}

test('nothing is traced without an endpoint, or when a variable switches tracing off', () => {
  assert.equal(good(undefined), undefined)
  assert.equal(good({ ratio: 0.1 }), undefined)
  assert.equal(
    good(undefined, { OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'xray' } as Environment) ?? 'off',
    'off',
  )
  assert.equal(good({ endpoint: ENDPOINT }, { OTEL_SDK_DISABLED: 'true' }), undefined)
  assert.equal(good({ endpoint: ENDPOINT }, { OTEL_TRACES_EXPORTER: 'none' }), undefined)
})

test('the endpoint of all signals gets the path of traces, and the endpoint of traces is taken as it is', () => {
  const of = (env: Environment) => good({ endpoint: ENDPOINT }, env)?.receiver.endpoint
  assert.equal(of({}), ENDPOINT)
  assert.equal(of({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:1' }), 'http://a:1/v1/traces')
  assert.equal(of({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:1/x/' }), 'http://a:1/x/v1/traces')
  const both = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/' }
  assert.equal(of(both), 'http://b/')
  assert.equal(of({ OTEL_EXPORTER_OTLP_ENDPOINT: '' }), ENDPOINT)
})

test('headers come from files, from variables, and from OTEL_EXPORTER_OTLP_HEADERS', () => {
  const tracing = {
    endpoint: ENDPOINT,
    headers: { Authorization: { file: '/run/key' }, 'X-Tenant': { env: 'TENANT' } },
  }
  const files = { '/run/key': 'Bearer a b\n' }
  const env = { TENANT: 't1', OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=t%202,api-key=k=1' }
  assert.deepEqual(good(tracing, env, files)?.receiver.headers, [
    ['Authorization', 'Bearer a b'],
    ['x-tenant', 't 2'],
    ['api-key', 'k=1'],
  ])
  assert.deepEqual(faults(tracing, {}, { '/run/key': 'a\nb' }), [
    'config/gateway.json: $.tracing.headers["Authorization"]: must hold one line of text, the value of a header field',
    'config/gateway.json: $.tracing.headers["X-Tenant"]: the environment variable TENANT is not set',
  ])
  const own = { endpoint: ENDPOINT, headers: { Host: { env: 'TENANT' } } }
  assert.match(faults(own, { TENANT: 'x' })[0] ?? '', /writes this header itself/)
})

test('a fault in headers does not repeat them', () => {
  for (const text of ['s3cret', 'a=s3cret%', 'a=s3cret%0Ax', 'a b=s3cret']) {
    const [fault = ''] = faults({ endpoint: ENDPOINT }, { OTEL_EXPORTER_OTLP_HEADERS: text })
    assert.match(fault, /^environment: OTEL_EXPORTER_OTLP_HEADERS: /)
    assert.equal(fault.includes('s3cret'), false)
  }
})

test('the service is named by the environment, else the file, else after the product', () => {
  const name = (tracing: object, env: Environment = {}) =>
    good({ endpoint: ENDPOINT, ...tracing }, env)?.resource['service.name']
  assert.equal(name({}), 'countersign')
  assert.equal(name({ serviceName: 'a' }), 'a')
  assert.equal(name({ serviceName: 'a' }, { OTEL_RESOURCE_ATTRIBUTES: 'service.name=b,x=1' }), 'b')
  assert.equal(name({}, { OTEL_RESOURCE_ATTRIBUTES: 'service.name=b', OTEL_SERVICE_NAME: 'c' }), 'c')
})

test('samplers of the environment take the place of ratio and parents', () => {
  const of = (env: Environment, parents = 'trusted') =>
    good({ endpoint: ENDPOINT, parents, ratio: 0.3 }, env)?.sampling
  assert.deepEqual(of({}), { ratio: 0.3, parents: 'trusted' })
  assert.deepEqual(of({ OTEL_TRACES_SAMPLER: 'always_on' }), { ratio: 1, parents: 'none' })
  assert.deepEqual(of({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' }), { ratio: 0, parents: 'trusted' })
  const ratio = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' }
  assert.deepEqual(of(ratio, 'none'), { ratio: 0.25, parents: 'all' })
})

test('values of variables that the gateway cannot follow are faults, all at once', () => {
  const env = {
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_TRACES_EXPORTER: 'zipkin',
    OTEL_TRACES_SAMPLER: 'xray',
    OTEL_BSP_SCHEDULE_DELAY: '0',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'zstd',
    OTEL_RESOURCE_ATTRIBUTES: 'a',
  }
  const found = faults({ endpoint: ENDPOINT }, env).map((fault) => fault.split(': ')[1])
  assert.deepEqual(found.sort(), Object.keys(env).sort())
})

test('the receiver must not be the gateway itself, and the file of its authorities must hold certificates', () => {
  const own = { endpoint: 'http://localhost:8080/v1/traces' }
  assert.match(faults(own)[0] ?? '', /spans of spans would never end/)
  const untrusted = { endpoint: ENDPOINT, caFile: '/ca' }
  assert.match(faults(untrusted, {}, { '/ca': 'x' })[0] ?? '', /a certificate in PEM/)
  const pem = '-----BEGIN CERTIFICATE-----\n'
  assert.equal(good(untrusted, {}, { '/ca': pem })?.receiver.ca, '-----BEGIN CERTIFICATE-----')
})

test('a fault names the variable that was followed', () => {
  const all = { OTEL_EXPORTER_OTLP_CERTIFICATE: '/all' }
  const own = { ...all, OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: '/own' }
  const file = { endpoint: ENDPOINT, caFile: '/file' }
  const bad = { '/all': 'x', '/own': 'x', '/file': 'x' }
  const placeOf = (...sources: Parameters<typeof load>) =>
    load(...sources).faults?.map((fault) => [fault.file, fault.path])
  assert.deepEqual(placeOf(file, {}, bad), [['config/gateway.json', '$.tracing.caFile']])
  assert.deepEqual(placeOf(file, all, bad), [['environment', 'OTEL_EXPORTER_OTLP_CERTIFICATE']])
  assert.deepEqual(placeOf(file, own, bad), [['environment', 'OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE']])
  const ours = 'http://localhost:8080'
  assert.deepEqual(placeOf({ endpoint: ours }), [['config/gateway.json', '$.tracing.endpoint']])
  for (const name of ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']) {
    assert.deepEqual(placeOf({ endpoint: ENDPOINT }, { [name]: ours }), [['environment', name]])
  }
})
