import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { ANY_CHARACTER } from '../../e2e/any-character.ts'
import type { RowRecord } from '../table/row-matching.ts'
import {
  batches,
  type Hit,
  hitLine,
  type Ignored,
  lastTable,
  readHits,
  tableLine,
} from './journal-records.ts'

const home = mkdtempSync(join(tmpdir(), 'records-'))
process.on('exit', () => rmSync(home, { recursive: true }))
const file = join(home, 'hits.ndjson')

const login: RowRecord = {
  id: 1,
  name: 'login',
  path: '/api/login',
  methods: ['POST'],
  limit: 5,
  windowMs: 60_000,
  horizonMs: null,
}

function read(text: string | Buffer): { hits: Hit[]; ignored: Ignored | undefined } {
  writeFileSync(file, text)
  const hits: Hit[] = []
  const ignored = readHits(file, (hit) => {
    hits.push(hit)
    return true
  })
  return { hits, ignored }
}

describe('the lines of the journal', () => {
  test('are read as they were written, whatever is in the keys', () => {
    const anyHit = fc.record(
      {
        id: fc.nat(),
        atMs: fc.double({ min: 0, max: 4e12, noNaN: true }).map((at) => at + 0),
        key: fc.string({ unit: ANY_CHARACTER }),
        count: fc.integer({ min: 1, max: 1_000_000 }),
      },
      { noNullPrototype: true },
    )
    fc.assert(
      fc.property(fc.array(anyHit), (hits) => {
        assert.deepEqual(read(hits.map(hitLine).join('')), { hits, ignored: undefined })
        assert.deepEqual(read([...batches(hits)].join('')).hits, hits)
      }),
    )
  })

  test('are compact, and leave a count of one out', () => {
    assert.equal(hitLine({ id: 12, atMs: 1.5, key: 'p:a"', count: 1 }), '[12,1.5,"p:a\\""]\n')
    assert.equal(hitLine({ id: 12, atMs: 1.5, key: 'a', count: 3 }), '[12,1.5,"a",3]\n')
  })

  test('come in batches of some 64 KiB', () => {
    const hit = { id: 1, atMs: 1, key: 'k'.repeat(1000), count: 1 }
    const lengths = [...batches(new Array(200).fill(hit))].map((lines) => lines.length)
    assert.equal(lengths.length, 4)
    assert.ok(lengths.every((length) => length < 67_000))
    assert.deepEqual([...batches([])], [])
  })

  test('are all read before a torn last line, which is reported', () => {
    const { hits, ignored } = read(`${tableLine([login])}[1,5,"a"]\n[1,6,"b`)
    assert.deepEqual(hits, [{ id: 1, atMs: 5, key: 'a', count: 1 }])
    assert.deepEqual(ignored, {
      file,
      damagedLines: 1,
      firstDamagedLine: 3,
      strayLines: 0,
      reason: undefined,
    })
  })

  test('are passed over when they are damaged in any way, and the first of them is named', () => {
    const damage = [
      'x',
      '[1,5]',
      '[1,5,7]',
      '["1",5,"a"]',
      '[1,"5","a"]',
      '[1,5,"a",0]',
      '[1,5,"a",-1]',
      '[1,5,"a",1.5]',
      '[1,1e999,"a"]',
      '[1.5,5,"a"]',
      '[1,null,"a"]',
      '{}',
      '{"rows":1}',
      '{"rows":[null]}',
      '{"rows":[{"id":1}]}',
      'null',
      '[',
      '\u0000\u0000',
      '{"rows":[{}',
      JSON.stringify({ rows: [{ ...login, methods: [1] }] }),
      JSON.stringify({ rows: [{ ...login, id: '1' }] }),
      JSON.stringify({ rows: [{ ...login, limit: null }] }),
      JSON.stringify({ rows: [{ ...login, windowMs: 0.5 }] }),
      JSON.stringify({ rows: [{ ...login, horizonMs: 'x' }] }),
      JSON.stringify({ rows: [{ ...login, methods: undefined }] }),
    ]
    for (const line of damage) {
      const { hits, ignored } = read(`[1,5,"a"]\n${line}\n[1,6,"b"]\n`)
      assert.deepEqual(
        hits.map((hit) => hit.key),
        ['a', 'b'],
        line,
      )
      assert.deepEqual([ignored?.damagedLines, ignored?.firstDamagedLine], [1, 2], line)
    }
    const { ignored: all } = read(`[1,5,"a"]\n${damage.join('\n')}\n`)
    assert.deepEqual([all?.damagedLines, all?.firstDamagedLine], [damage.length, 2])
  })

  test('never throw, whatever bytes a file holds', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void read(Buffer.from(bytes))))
  })

  test('that belong to no row are counted, and not as damaged', () => {
    writeFileSync(file, '[1,5,"a"]\n[2,5,"a"]\n')
    assert.deepEqual(
      readHits(file, (hit) => hit.id === 1),
      { file, damagedLines: 0, firstDamagedLine: 0, strayLines: 1, reason: undefined },
    )
  })

  test('of a file that cannot be read are ignored as a whole, with the reason', () => {
    const unreadable = join(home, 'directory')
    mkdirSync(unreadable)
    assert.match(readHits(unreadable, () => true)?.reason ?? '', /EISDIR/)
    assert.equal(lastTable(unreadable), undefined)
  })

  test('give the last table that is whole, before a torn one', () => {
    writeFileSync(
      file,
      `${tableLine([login])}[1,5,"a"]\n${tableLine([{ ...login, limit: 6 }])}[1,5,"a"]\n{"rows":[{`,
    )
    assert.deepEqual(lastTable(file), [{ ...login, limit: 6 }])
    writeFileSync(file, '[1,5,"a"]\n')
    assert.equal(lastTable(file), undefined)
  })
})
