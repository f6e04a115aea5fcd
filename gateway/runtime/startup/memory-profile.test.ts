import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forProfile } from './memory-profile.ts'

const YOUNG = ['--min-semi-space-size=32', '--max-semi-space-size=32']

test('without a profile, and with the profile fast or an unknown one, Node is started as given', () => {
  for (const GATEWAY_PROFILE of [undefined, 'fast', 'tiny']) {
    const given = { options: [...YOUNG, '--import=x'], env: { GATEWAY_PROFILE, A: '1' } }
    assert.deepEqual(forProfile(given), given)
  }
})

test('with the small profile Node gets less room for young objects, and keeps all else', () => {
  const env = { GATEWAY_PROFILE: 'small', A: '1' }
  const small = forProfile({ options: ['--import=x', ...YOUNG], env })
  assert.deepEqual(small.options, ['--import=x', '--max-semi-space-size=4', '--heap-growing-percent=20'])
  assert.deepEqual(small.env, {
    MALLOC_ARENA_MAX: '1',
    MALLOC_MMAP_THRESHOLD_: '32768',
    MALLOC_TRIM_THRESHOLD_: '65536',
    ...env,
  })
  assert.deepEqual(forProfile(small), small)
  assert.equal(forProfile({ options: [], env: { ...env, MALLOC_ARENA_MAX: '4' } }).env.MALLOC_ARENA_MAX, '4')
})
