import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resultWords } from './reload.ts'

test('an edit that waits for a restart is not said to be in force', () => {
  const words = (result: 'success' | 'unchanged' | 'failure', needsRestart: string[]) =>
    resultWords({ result, needsRestart })
  assert.equal(words('unchanged', ['dataDir', 'tls']), 'in force, but after a restart: dataDir, tls')
  assert.equal(words('success', ['dataDir']), 'in force, but after a restart: dataDir')
  assert.equal(words('success', []), 'in force')
  assert.equal(words('unchanged', []), 'in force already')
  assert.equal(words('failure', []), 'refused: the last good one stays in force')
})
