import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type LimitRow, writtenRow } from './limit-row.ts'

const row: LimitRow = {
  name: 'login',
  path: '/api/login',
  methods: undefined,
  limit: 5,
  window: '1m',
  windowMs: 60_000,
  purpose: 'Slows "guessing"\nof passwords',
  per: 'caller',
  mode: 'enforce',
  onStoreFailure: 'local',
}

test('a row is written as the operator may write it, with its defaults', () => {
  const written = {
    path: '/api/login',
    limit: 5,
    window: '1m',
    purpose: row.purpose,
    name: 'login',
    per: 'caller',
    mode: 'enforce',
    onStoreFailure: 'local',
  }
  assert.deepEqual(JSON.parse(JSON.stringify(writtenRow(row))), written)
  const limited = { ...row, limit: 6, methods: new Set(['POST', 'PUT']) }
  assert.deepEqual(JSON.parse(JSON.stringify(writtenRow(limited))), {
    ...written,
    limit: 6,
    methods: ['POST', 'PUT'],
  })
})
