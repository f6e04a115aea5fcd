import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ReplayMemory } from '../auth/replay.ts'
import { Revocations } from '../auth/revocations.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import { Limiter } from '../limits/limiter.ts'
import { makeRow } from '../limits/table/limit-row.test-support.ts'
import type { LimitRow } from '../limits/table/limit-row.ts'

const START_MS = 1_763_692_800_000
const SEGMENT = `limits/hits-${START_MS}.ndjson`

/** As commit 5c86602 wrote them, before files had headers; byte for byte. */
const OLDER: Readonly<Record<string, string>> = {
  'revocations.ndjson': `{"sid":"session-1","revokedAtMs":1763692800002.75}
{"sid":"https://issuer.example|session-2","revokedAtMs":1763692800007.75}
`,
  'webhooks.ndjson': `{"message":"YFcOwlTFM_VWF99ta6zVK8yUgAId4v6ypDh8kh8SEzw","seenAtMs":1763692800007.75}
`,
  [SEGMENT]: `{"rows":[{"id":1,"name":"transfer","path":"/api/transfer","methods":["POST"],"limit":3,"windowMs":3600000,"horizonMs":null},{"id":2,"name":"login","path":"/api/login","methods":["POST"],"limit":5,"windowMs":60000,"horizonMs":null},{"id":3,"name":"bulk","path":"/api/bulk","methods":["POST"],"limit":5000,"windowMs":60000,"horizonMs":null}]}
[1,1763692800000.25,"p:alice"]
[1,1763692800000.5,"p:alice"]
[1,1763692800000.75,"p:é\\""]
`,
  'limits/snapshot.ndjson': `[2,1763692800001.75,"a:10.0.0.1"]
[2,1763692800002.75,"a:10.0.0.1"]
[3,1763692800002.75,"p:alice",3]
`,
  // Later versions reserved room for revocations.
  'revocations.reserve.ndjson': '\n{"sid":"session-3","revokedAtMs":1763692800001}'.padEnd(16 * 1024, '\n'),
}

function row(name: string, windowMs: number, limit: number): LimitRow {
  return makeRow({
    name,
    path: `/api/${name}`,
    methods: new Set(['POST']),
    limit,
    window: '',
    windowMs,
    purpose: '',
  })
}

const TRANSFER = row('transfer', 3_600_000, 3)
const LOGIN = row('login', 60_000, 5)
const BULK = row('bulk', 60_000, 5000)

describe('the files of the data directory', () => {
  let dataDir: string
  let close: () => void
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'countersign-'))
    mkdirSync(join(dataDir, 'limits'))
    close = () => {}
  })
  afterEach(() => {
    close()
    rmSync(dataDir, { recursive: true })
  })

  const clock = () => START_MS + 10
  const onFault = (cause: unknown) => assert.fail(JSON.stringify(cause))
  const openLimiter = () => {
    const reports = { ignored: onFault, failed: onFault }
    const journal = new Journal({ directory: join(dataDir, 'limits'), reports })
    close = () => journal.close([], clock())
    const limiter = new Limiter({ clock, journal })
    limiter.replace([TRANSFER, LOGIN, BULK])
    return limiter
  }
  const openRevocations = () => new Revocations({ dataDir, clock, onFault })
  const openDeliveries = () =>
    new ReplayMemory({ lifetimeMs: 601_000, clock, store: { dataDir, name: 'webhooks', onFault } })
  const write = (files: Readonly<Record<string, string>>) => {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(dataDir, name), text)
  }

  it('of older versions are read, and a restart reads them again', () => {
    write(OLDER)
    for (let start = 0; start < 2; start++) {
      const limiter = openLimiter()
      assert.deepEqual(
        [...limiter.copy().hits].map(({ id, key, count }) => [id, key, count]),
        [
          [1, 'p:alice', 1],
          [1, 'p:alice', 1],
          [1, 'p:é"', 1],
          [2, 'a:10.0.0.1', 1],
          [2, 'a:10.0.0.1', 1],
          [3, 'p:alice', 3],
        ],
      )
      limiter.close()
      close = () => {}
      const revocations = openRevocations()
      for (const sid of ['session-1', 'https://issuer.example|session-2', 'session-3']) {
        assert.equal(revocations.isRevoked(sid), true, sid)
      }
      assert.equal(openDeliveries().take('key_acme\0msg_1', 'key_acme'), 'replayed')
    }
  })

  it('say their format in their first line', () => {
    const limiter = openLimiter()
    limiter.take(TRANSFER, 'p:alice')
    limiter.close()
    close = () => {}
    openRevocations()
    openDeliveries()
    const formats = {
      [SEGMENT.replace(/\d+/, String(clock()))]: 'limits',
      'limits/snapshot.ndjson': 'limits',
      'revocations.ndjson': 'revocations',
      'revocations.reserve.ndjson': 'revocations',
      'webhooks.ndjson': 'webhooks',
    }
    for (const [name, format] of Object.entries(formats)) {
      const text = readFileSync(join(dataDir, name), 'utf8')
      assert.equal(text.slice(0, text.indexOf('\n')), `{"format":"${format}","version":1}`, name)
    }
  })

  const readers = {
    [SEGMENT]: openLimiter,
    'limits/snapshot.ndjson': openLimiter,
    'revocations.ndjson': openRevocations,
    'revocations.old.ndjson': openRevocations,
    'revocations.reserve.ndjson': openRevocations,
    'webhooks.ndjson': openDeliveries,
    'webhooks.old.ndjson': openDeliveries,
  }
  for (const [name, open] of Object.entries(readers)) {
    it(`of a newer version stop the start, which names ${name}, and stay as they are`, () => {
      const text = '{"format":"anything","version":2}\n{"what":"ever"}\n'
      write({ [name]: text })
      const message = `${join(dataDir, name)} was written by a newer version of the gateway`
      assert.throws(open, (error: Error) => error.message.includes(message))
      assert.equal(readFileSync(join(dataDir, name), 'utf8'), text)
    })
  }
})
