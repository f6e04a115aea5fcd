import assert from 'node:assert/strict'
import { it } from 'node:test'
import { freePorts } from './free-port.ts'

it('two that look for free ports at the same place get different ones', {
  skip: process.platform !== 'linux',
}, async () => {
  const [one, other] = [freePorts(0), freePorts(0)]
  const ports: number[] = []
  for (let i = 0; i < 5; i++) ports.push(...(await Promise.all([one(), other()])))
  assert.equal(new Set(ports).size, ports.length)
})
