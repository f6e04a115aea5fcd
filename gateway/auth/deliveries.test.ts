import assert from 'node:assert/strict'
import { it } from 'node:test'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { DELIVERY_LIFETIME_MS, Deliveries } from './deliveries.ts'
import { type DeliveryGuard, ReplayMemory } from './replay.ts'

const DELIVERY = { keys: ['content', 'id'], sender: 'acme' }

function memory(nowMs = { value: 0 }) {
  return new ReplayMemory({ lifetimeMs: DELIVERY_LIFETIME_MS, clock: () => nowMs.value })
}

it('a copy of a delivery in progress is refused, and passes once the delivery has failed', () => {
  const deliveries = new Deliveries(memory())
  assert.equal(deliveries.begin(DELIVERY), undefined)
  assert.equal(deliveries.begin({ ...DELIVERY, keys: ['content'] }), 'replayed')
  assert.equal(deliveries.begin({ ...DELIVERY, keys: ['other', 'id'] }), 'replayed')
  assert.equal(deliveries.begin({ ...DELIVERY, keys: ['other'] }), undefined)
  deliveries.end(DELIVERY, false)
  assert.equal(deliveries.begin(DELIVERY), undefined)
})

it('a delivery that was taken is known for 24 hours by each of its keys', () => {
  const now = { value: 0 }
  const deliveries = new Deliveries(memory(now))
  assert.equal(deliveries.begin(DELIVERY), undefined)
  deliveries.end(DELIVERY, true)
  now.value = DELIVERY_LIFETIME_MS - 1
  for (const key of DELIVERY.keys) assert.equal(deliveries.begin({ ...DELIVERY, keys: [key] }), 'replayed')
  now.value = DELIVERY_LIFETIME_MS
  assert.equal(deliveries.begin(DELIVERY), undefined)
})

it('a delivery that was taken is known after a restart', (t) => {
  const dataDir = temporaryDirectory(t)
  const open = () =>
    new Deliveries(
      new ReplayMemory({
        lifetimeMs: DELIVERY_LIFETIME_MS,
        clock: Date.now,
        store: { dataDir, name: 'deliveries', onFault: assert.fail },
      }),
    )
  const first = open()
  assert.equal(first.begin(DELIVERY), undefined)
  first.end(DELIVERY, true)
  assert.equal(open().begin(DELIVERY), 'replayed')
})

it('a delivery is refused while the shared store is away, and may begin again', async () => {
  let found: 'away' | undefined = 'away'
  const guard: DeliveryGuard = {
    begin: async () => found,
    end: (_keys, _sender, isTaken) => assert.equal(isTaken, false),
    maintain: () => {},
  }
  const deliveries = new Deliveries(guard)
  assert.equal(await deliveries.begin(DELIVERY), 'away')
  found = undefined
  assert.equal(await deliveries.begin(DELIVERY), undefined)
})

it('a delivery is refused where no more can be remembered', () => {
  const full = new ReplayMemory({ lifetimeMs: 1000, clock: () => 0, maxEntries: 0 })
  assert.equal(new Deliveries(full).begin(DELIVERY), 'full')
})

it('a copy of a delivery in progress in the old process is refused until that process ends it, or has gone', () => {
  const before = new Deliveries(memory())
  const names = ['taken', 'failed', 'cut']
  const deliveryOf = (name: string) => ({ keys: [name, `${name} id`], sender: 'acme' })
  for (const name of names) assert.equal(before.begin(deliveryOf(name)), undefined)
  const next = new Deliveries(memory())
  next.inherit(before.inProgress)
  before.otherProcess = (delivery, isTaken) => next.end(delivery, isTaken)
  const tell = (name: string) => next.begin(deliveryOf(name))
  assert.deepEqual(names.map(tell), ['replayed', 'replayed', 'replayed'])
  before.end(deliveryOf('taken'), true)
  before.end(deliveryOf('failed'), false)
  assert.deepEqual(names.map(tell), ['replayed', undefined, 'replayed'])
  next.release()
  assert.deepEqual(names.map(tell), ['replayed', 'replayed', undefined])
})

it('a delivery is refused while another process has the files, because that process may have a copy in progress', () => {
  const deliveries = new Deliveries(memory())
  deliveries.otherProcess = () => assert.fail()
  assert.equal(deliveries.begin(DELIVERY), 'unwritable')
  deliveries.otherProcess = undefined
  assert.equal(deliveries.begin(DELIVERY), undefined)
})
