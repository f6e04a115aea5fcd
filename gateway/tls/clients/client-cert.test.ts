import assert from 'node:assert/strict'
import { test } from 'node:test'
import { clientCertHeader } from './certificate-names.ts'

test('Client-Cert is the DER in base64 between colons', () => {
  assert.equal(clientCertHeader(Buffer.from([0x30, 0x82, 0xff, 0xfe])), ':MIL//g==:')
})
