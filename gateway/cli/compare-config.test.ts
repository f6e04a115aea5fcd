import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ConfigReport } from '../admin/config-in-force.ts'
import { compareConfig } from './compare-config.ts'

const part = (rows: readonly object[], settings?: object) => ({
  file: 'a.json',
  hash: JSON.stringify([rows, settings]),
  sinceMs: 0,
  rows,
  lastReload: undefined,
  ...(settings && { settings }),
})
const report = (parts: ConfigReport['parts']): ConfigReport => ({ version: '1', hash: '', parts })

test('rows that were added, removed and changed are told apart by name, path or id, wherever they stand', () => {
  const before = report({
    gateway: part([{ path: '/a' }, { path: '/b', methods: ['GET'], auth: ['none'] }], {
      port: 1,
      timeouts: { a: 1, b: 2 },
    }),
    limits: part([
      { name: 'x', limit: 5 },
      { name: 'y', limit: 5 },
      { name: 'z', limit: 5 },
    ]),
  })
  const after = report({
    gateway: part([{ path: '/b', methods: ['GET'], auth: ['bearer'] }, { path: '/c' }], {
      port: 2,
      timeouts: { a: 1, b: 3 },
    }),
    limits: part([
      { name: 'z', limit: 5 },
      { name: 'x', limit: 8 },
      { name: 'w', limit: 1 },
    ]),
    clients: part([{ id: 'bank' }]),
  })
  assert.deepEqual(compareConfig(before, after), [
    'a.json:',
    '  ~ port: 1 → 2 (after a restart)',
    '  ~ timeouts.b: 2 → 3',
    '  - route /a: {"path":"/a"}',
    '  ~ route /b GET: auth: ["none"] → ["bearer"]',
    '  + route /c: {"path":"/c"}',
    'a.json:',
    '  - limit y: {"name":"y","limit":5}',
    '  ~ limit x: limit: 5 → 8',
    '  + limit w: {"name":"w","limit":1}',
    'a.json:',
    '  + client bank: {"id":"bank"}',
  ])
})

test('the same rows in another order, and parts with one hash, are no difference', () => {
  const one = report({ limits: part([{ name: 'x' }, { name: 'y' }]) })
  assert.deepEqual(compareConfig(one, report({ limits: part([{ name: 'y' }, { name: 'x' }]) })), [])
  assert.deepEqual(compareConfig(one, one), [])
})

test('settings that a running gateway cannot change are marked', () => {
  const before = {
    upstream: ['a'],
    upstreams: {},
    audit: { file: 'a', rotation: { compress: 1 }, witnesses: { quorum: 1 } },
    timeouts: { handshakeMs: 1, idleMs: 1 },
  }
  const after = {
    upstream: ['b'],
    upstreams: { b: 1 },
    audit: { file: 'b', rotation: { compress: 2 }, witnesses: { quorum: 2 } },
    timeouts: { handshakeMs: 2, idleMs: 2 },
  }
  const [one, other] = [
    { ...before, tls: undefined },
    { ...after, tls: { port: 1 } },
  ].map((settings) => report({ gateway: part([], settings) }))
  assert.ok(one && other)
  assert.deepEqual(compareConfig(one, other), [
    'a.json:',
    '  ~ upstream: ["a"] → ["b"]',
    '  ~ upstreams.b: unset → 1',
    '  ~ audit.file: "a" → "b" (after a restart)',
    '  ~ audit.rotation.compress: 1 → 2',
    '  ~ audit.witnesses.quorum: 1 → 2 (after a restart)',
    '  ~ timeouts.handshakeMs: 1 → 2 (after a restart)',
    '  ~ timeouts.idleMs: 1 → 2',
    '  ~ tls: unset → {"port":1} (after a restart)',
  ])
})
