import assert from 'node:assert/strict'
import { test } from 'node:test'
import { UsageFault } from '../command.ts'
import { command } from './verify-seals.ts'

test('a flag or file that --proof does not use is refused by its name', async () => {
  for (const [words, flags, named] of [
    [[], { checkpoint: 'kept' }, '--checkpoint'],
    [[], { since: '7d' }, '--since'],
    [[], { 'stamp-authority': 'tsa.pem' }, '--stamp-authority'],
    [[], { stamps: 'dir' }, '--stamps'],
    [[], { log: 'dir' }, '--log'],
    [[], { part: '' }, '--part'],
    [['data/audit.ndjson'], {}, 'data/audit.ndjson'],
  ] as const) {
    await assert.rejects(
      async () => command.run({ words: [...words], flags: { proof: 'x.tlog-proof', ...flags } }),
      (error: Error) => error instanceof UsageFault && error.message.includes(named),
      named,
    )
  }
})
