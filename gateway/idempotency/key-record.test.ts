import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { type KeyRecord, keyLines, openLine, readKeyHead, readKeyRecord } from './key-record.ts'
import { SECRETS } from './key-table.test-support.ts'

const [secret] = SECRETS
const NEWLINE = 0x0a

const name = (text: string) => secret.nameOf(text)
const response = fc.record(
  {
    status: fc.integer({ min: 200, max: 599 }),
    fields: fc.array(fc.constantFrom('ETag: "1"\r\n', 'X-Name: \xfc\r\n')).map((lines) => lines.join('')),
    body: fc.option(
      fc.oneof(
        fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
        fc.nat(20_000).map((length) => 'a'.repeat(length)),
      ),
      { nil: undefined },
    ),
  },
  { noNullPrototype: true },
)
const record = fc
  .record({
    state: fc.constantFrom('begun' as const, 'unknown' as const, 'done' as const, 'free' as const),
    number: fc.nat(),
    response,
  })
  .map(
    ({ state, number, response: kept }): KeyRecord => ({
      ...{ state, caller: name(`caller ${number}`), fingerprint: name(`content ${number}`) },
      ...{ atMs: 1_900_000_000_000 + number, keepMs: 60_000, requestId: `request-${number}` },
      ...(state === 'done' && { response: kept }),
    }),
  )
const records = fc
  .array(record, { minLength: 1, maxLength: 12 })
  .map((all) => all.map((one, at) => ({ id: secret.idOf('caller', 'row', `${at}`), record: one })))

/** The records as they are read again. */
function readBack(
  text: Buffer,
  places: ReturnType<typeof keyLines>['places'],
  ids: readonly string[],
  seal: Parameters<typeof openLine>[1],
) {
  return ids.map((id, index) => {
    const { at = 0 } = places[index] ?? {}
    const line = text.subarray(at, text.indexOf(NEWLINE, at))
    return readKeyRecord(line, { id, at }, (from, bytes) => openLine(text.subarray(from, from + bytes), seal))
  })
}

it('records that are written together are read as they were, each with its own response', () => {
  fc.assert(
    fc.property(records, (all) => {
      const seal = secret.sealOf()
      const { text, places } = keyLines(all, seal)
      const ids = all.map(({ id }) => id)
      assert.deepEqual(
        readBack(Buffer.from(text, 'latin1'), places, ids, seal),
        all.map(({ record: one }) => one),
      )
      assert.ok(all.every(({ id }) => text.split(`\n${id} `).length + Number(text.startsWith(id)) === 2))
    }),
  )
})

it('a damaged byte loses a record, and never gives it another state or response', () => {
  fc.assert(
    fc.property(records, fc.nat(), fc.integer({ min: 1, max: 255 }), (all, where, change) => {
      const seal = secret.sealOf()
      const { text, places } = keyLines(all, seal)
      const bytes = Buffer.from(text, 'latin1')
      const at = where % bytes.length
      bytes[at] = (bytes[at] ?? 0) ^ change
      const ids = all.map(({ id }) => id)
      for (const [index, found] of readBack(bytes, places, ids, seal).entries())
        if (found !== undefined) assert.deepEqual(found, all[index]?.record)
    }),
    { numRuns: 500 },
  )
})

it('the longest record is a line that can be read', () => {
  const longest = {
    state: 'unknown',
    caller: name(''),
    fingerprint: name(''),
    atMs: 9e15,
    keepMs: 9e15,
  } as const
  const { text } = keyLines(
    [{ id: secret.idOf('', '', ''), record: { ...longest, requestId: 'r'.repeat(128) } }],
    secret.sealOf(),
  )
  assert.equal(readKeyHead(Buffer.from(`${text.trimEnd()} `))?.head?.requestId.length, 128)
  assert.ok(text.length < 300, `${text.length}`)
})
