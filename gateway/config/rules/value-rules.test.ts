import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { test } from 'node:test'
import {
  addNetwork,
  hostFault,
  issuerFault,
  tidyUpstream,
  upstreamFault,
  urlFault,
  versionFault,
} from './value-rules.ts'

test('a listener is bound to an address or a name, without brackets or port', () => {
  for (const host of ['127.0.0.1', '0.0.0.0', '::', '::1', 'localhost', 'gateway.internal', 'my_host']) {
    assert.equal(hostFault(host), undefined, host)
  }
  for (const host of ['', '[::1]', '127.0.0.1:80', 'http://x', 'a b', '256.1.1.1', '1.2.3', '-x', 'x.']) {
    assert.match(hostFault(host) ?? 'good', /must be an IP address/, host)
  }
})

test('an upstream is http, https or an absolute socket path', () => {
  const good = [
    'http://127.0.0.1:3000',
    'https://bank.example',
    'http://[::1]:3000',
    'http://a_b/',
    'unix:/run/a.sock',
    'h2c://a:50051',
    'h2://[::1]:50051/',
  ]
  for (const upstream of good) assert.equal(upstreamFault(upstream), undefined, upstream)
})

test('an upstream with anything else in it is refused', () => {
  const http = [
    '',
    '127.0.0.1:3000',
    'ftp://x',
    'HTTP://x',
    'http:x',
    'http://',
    'http://x/api',
    'http://x?y',
    'http://x#y',
    'http://u:p@x',
    'http://x:0',
    'http://x:99999',
    'http://x:',
    'http://999.1.1.1',
    'http://x y',
    'http:\\\\x',
    'http://x\n',
  ]
  for (const upstream of http) {
    assert.match(
      upstreamFault(upstream) ?? 'good',
      /must be http:\/\/host:port, .*but (?:is|has an @)/,
      upstream,
    )
  }
  for (const upstream of ['unix:', 'unix:run/a.sock', 'unix:///run/a.sock', 'unix:/run/', 'unix:/a\0b']) {
    assert.match(upstreamFault(upstream) ?? 'good', /absolute path/, upstream)
  }
  assert.match(upstreamFault(`unix:/${'x'.repeat(103)}`) ?? 'good', /at most 103 bytes/)
  assert.equal(upstreamFault(`unix:/${'x'.repeat(102)}`), undefined)
})

test('the closing slash of an upstream is dropped, but not of a socket', () => {
  assert.equal(tidyUpstream('http://x/'), 'http://x')
  assert.equal(tidyUpstream('http://x'), 'http://x')
  assert.equal(tidyUpstream('unix:/x/'), 'unix:/x/')
})

test('a URL is http or https, without credentials and fragment; an issuer also without query', () => {
  for (const url of ['http://localhost:8080', 'https://a.example/b', 'https://a.example/']) {
    assert.equal(urlFault(url), undefined)
    assert.equal(issuerFault(url), undefined)
  }
  for (const url of [
    '',
    'a.example',
    'ftp://a',
    'https:/a',
    'https://a b',
    'https://a\\b',
    'https://[',
    ' https://a',
  ]) {
    assert.match(urlFault(url) ?? 'good', /must be an http or https URL/, url)
  }
  for (const told of [
    urlFault('htps://u:secret@a'),
    urlFault('https://u:secret@'),
    urlFault('https://u:secret@a/?b#c'),
    upstreamFault('http://u:secret@a:1'),
    upstreamFault('htp://u:secret@a:1'),
    versionFault('h2c://u:secret@a', 'http://a'),
    issuerFault('http://u:secret@?a'),
  ])
    assert.ok(told !== undefined && told !== '' && !told.includes('secret'), String(told))
  assert.match(urlFault('https://u:secret@a') ?? 'good', /^must be a URL without credentials$/)
  assert.match(urlFault('https://:secret@a') ?? 'good', /^must be a URL without credentials$/)
  assert.match(urlFault('https://a/#b') ?? 'good', /without a fragment/)
  assert.equal(urlFault('https://a/?b'), undefined)
  assert.match(issuerFault('https://a/?b') ?? 'good', /without a query/)
  assert.match(issuerFault('a') ?? 'good', /http or https URL/)
})

test('an address or a network is added to the list, of either family', () => {
  const list = new BlockList()
  for (const network of ['10.0.0.0/8', '192.0.2.7/32', 'fd00::/8', '2001:db8::1', '::2/128']) {
    assert.equal(addNetwork(list, network), undefined, network)
  }
  for (const [address, family] of [
    ['10.255.0.1', 'ipv4'],
    ['192.0.2.7', 'ipv4'],
    ['fdff::1', 'ipv6'],
    ['2001:db8::1', 'ipv6'],
  ] as const) {
    assert.equal(list.check(address, family), true, address)
  }
  assert.equal(list.check('192.0.2.8'), false)
})

test('what is no address or network is refused and adds nothing', () => {
  const list = new BlockList()
  const bad = [
    '',
    'localhost',
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0.0/',
    '10.0.0.0/08',
    '10.0.0/8',
    'fe80::1%eth0',
    '/8',
  ]
  for (const network of bad)
    assert.match(addNetwork(list, network) ?? 'good', /must be an IP address or a network/, network)
  assert.deepEqual(list.rules, [])
})
