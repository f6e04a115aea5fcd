import assert from 'node:assert/strict'
import { it } from 'node:test'
import { memorySaver } from './save-memory.ts'

it('trims buffers at every tick, and collects garbage once after each busy time', () => {
  const did: string[] = []
  let share = 0
  const tick = memorySaver({
    utilization: () => share,
    trim: () => did.push('trim'),
    collect: () => did.push('collect'),
  })
  const ticksAt = (utilization: number, ticks: number): string[] => {
    share = utilization
    for (let i = 0; i < ticks; i++) tick()
    return did.splice(0)
  }
  // A start is work, too.
  assert.deepEqual(ticksAt(0.05, 1), ['trim'])
  assert.deepEqual(ticksAt(0.001, 3), ['trim', 'collect', 'trim', 'trim'])
  assert.deepEqual(ticksAt(0.9, 2), ['trim', 'trim'])
  assert.deepEqual(ticksAt(0, 2), ['trim', 'collect', 'trim'])
})
