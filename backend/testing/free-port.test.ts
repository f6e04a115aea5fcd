import assert from 'node:assert/strict'
import { it } from 'node:test'
import { freePorts } from './free-port.ts'

it('two searches that begin at the same port get different ports', {
  skip: process.platform !== 'linux',
}, async () => {
  const [one, other] = [freePorts(0), freePorts(0)]
  const ports: number[] = []
  for (let i = 0; i < 5; i++) ports.push(...(await Promise.all([one(), other()])))
  assert.equal(new Set(ports).size, ports.length)
})
