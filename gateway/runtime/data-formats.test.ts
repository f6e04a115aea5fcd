import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openTrail } from '../audit/open-trail.ts'
import { ReplayMemory } from '../auth/replay.ts'
import { Revocations } from '../auth/revocations.ts'
import { Journal } from '../limits/journal/limit-journal.ts'
import { Limiter } from '../limits/limiter.ts'
import { makeRow } from '../limits/table/limit-row.test-support.ts'
import type { LimitRow } from '../limits/table/limit-table.ts'

const START_MS = 1_763_692_800_000
const SEGMENT = `limits/hits-${START_MS}.ndjson`

/** Files as commit 5c86602 wrote them, before they had headers; byte for byte. */
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

/**
 * Files as commit 95d508b wrote them with two worker threads, until `kill -9` (times and ids shortened); byte for byte.
 * Ids that the gateway made end in the number of the thread. All threads wrote to the same files.
 */
const OF_WORKERS: Readonly<Record<string, string>> = {
  [SEGMENT]: `{"format":"limits","version":1}
{"rows":[{"id":1,"name":"login","path":"/api/login","methods":["POST"],"limit":5,"windowMs":60000,"horizonMs":null},{"id":2,"name":"transfer","path":"/api/transfer","methods":["POST"],"limit":3,"windowMs":3600000,"horizonMs":null}]}
[2,1763692800000.592,"a:127.0.0.1"]
[2,1763692800001.8438,"a:127.0.0.1"]
`,
  'revocations.ndjson': `{"format":"revocations","version":1}
{"sid":"session-1","revokedAtMs":1763692800002.1396}
`,
  'revocations.reserve.ndjson': '{"format":"revocations","version":1}'.padEnd(16 * 1024, '\n'),
  'webhooks.ndjson': `{"format":"webhooks","version":1}
{"message":"CsRqHbecQ-IA9A2IxuPV0eHqsjfyFIc2IX66jvpv6Vg","seenAtMs":1763692800003.0068}
`,
  'audit.ndjson': `{"type":"AUDIT_START","timestamp":"2025-11-21T02:40:00.000Z","version":"0.1.0","pid":17638,"open":0,"cutBytes":0,"recovered":0,"damagedLines":0,"unresolved":0,"locked":true,"format":2}
{"type":"API_REQUEST","requestId":"01a219cd-c25f-7650-a8ef-bd5fd3ea0001","timestamp":"2025-11-21T02:40:00.001Z","method":"GET","path":"/api/open","ip":"127.0.0.1","userAgent":""}
{"type":"API_RESPONSE","requestId":"01a219cd-c25f-7650-a8ef-bd5fd3ea0001","timestamp":"2025-11-21T02:40:00.001Z","method":"GET","path":"/api/open","ip":"127.0.0.1","userAgent":"","statusCode":200,"duration":11.763}
{"type":"API_REQUEST","requestId":"01a219cd-c2b3-7097-852f-0caff94a0001","timestamp":"2025-11-21T02:40:00.002Z","method":"GET","path":"/api/slow","ip":"127.0.0.1","userAgent":""}
{"type":"API_REQUEST","requestId":"01a219cd-c2b4-7406-ba07-4c63b72e0002","timestamp":"2025-11-21T02:40:00.003Z","method":"GET","path":"/api/slow","ip":"127.0.0.1","userAgent":""}
{"type":"API_REQUEST","requestId":"01a219cd-c2b4-75a9-9d07-f1ad69500001","timestamp":"2025-11-21T02:40:00.003Z","method":"GET","pa`,
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
  const hitsOf = (limiter: Limiter) => {
    const { rows, nowMs } = limiter.inForce()
    return rows.flatMap(([, counters]) =>
      [...counters.entries(nowMs)].map(([key, [, count]]) => [counters.record.id, key, count]),
    )
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
      assert.deepEqual(hitsOf(limiter), [
        [1, 'p:alice', 1],
        [1, 'p:alice', 1],
        [1, 'p:é"', 1],
        [2, 'a:10.0.0.1', 1],
        [2, 'a:10.0.0.1', 1],
        [3, 'p:alice', 3],
      ])
      limiter.close()
      close = () => {}
      const revocations = openRevocations()
      for (const sid of ['session-1', 'https://issuer.example|session-2', 'session-3']) {
        assert.equal(revocations.isRevoked(sid), true, sid)
      }
      assert.equal(openDeliveries().take('key_acme\0msg_1', 'key_acme'), 'replayed')
    }
  })

  it('of a gateway that had worker threads are read: counts, sessions, webhooks, and requests of each thread left open', () => {
    write(OF_WORKERS)
    const limiter = openLimiter()
    assert.deepEqual(
      hitsOf(limiter).map(([, key]) => key),
      ['a:127.0.0.1', 'a:127.0.0.1'],
    )
    assert.equal(limiter.take(TRANSFER, 'a:127.0.0.1').allowed, true)
    assert.equal(limiter.take(TRANSFER, 'a:127.0.0.1').allowed, false)
    assert.equal(openRevocations().isRevoked('session-1'), true)
    assert.equal(openDeliveries().take('key_acme\0msg_1\x001795729244', 'key_acme'), 'replayed')
    const file = join(dataDir, 'audit.ndjson')
    openTrail({ file, onFault: (error) => assert.fail(error), onRecord: () => {} }).close('end')
    const lines = readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(
      lines
        .slice(5)
        .map(({ type, requestId, statusCode, recovered }) => [type, requestId, statusCode, recovered]),
      [
        ['API_RESPONSE', '01a219cd-c2b3-7097-852f-0caff94a0001', 0, true],
        ['API_RESPONSE', '01a219cd-c2b4-7406-ba07-4c63b72e0002', 0, true],
        ['AUDIT_START', undefined, undefined, 2],
        ['AUDIT_STOP', undefined, undefined, undefined],
      ],
    )
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
