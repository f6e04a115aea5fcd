import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { renderPicture } from './picture.ts'
import type { EntryReport, Measure, Report } from './report.ts'
import { renderResults } from './results.ts'

function entryOf(name: string, cpusUs: readonly number[], more: Partial<EntryReport> = {}): EntryReport {
  const measures = cpusUs.map(
    (cpuUs, index): Measure => ({
      load: 'saturation',
      round: index + 1,
      perSecond: 1e6 / cpuUs,
      userUs: cpuUs / 4,
      systemUs: (cpuUs * 3) / 4,
    }),
  )
  return { name, measures, peakBytes: 64 * 2 ** 20, skipped: undefined, ...more }
}

function reportOf(entries: readonly EntryReport[]): Report {
  return {
    date: '2026-03-04T05:06:07.000Z',
    rounds: 3,
    secondsPerRound: 2.5,
    facts: [['processor', 'one | of two']],
    contenders: [{ name: 'gateway', version: '1.2.3', work: 'everything' }],
    scenarios: [{ id: 'main', title: 'The main work', references: [], entries }],
  }
}

function rowOf(page: string, name: string): string[] {
  const line = page.split('\n').find((text) => text.includes(` ${name} |`) && text.includes('('))
  return (line ?? '').split(` ${name} |`).at(-1)?.trim().split(' | ') ?? []
}

describe('the page of results', () => {
  it('is dated, and names machine and versions', () => {
    const page = renderResults(reportOf([entryOf('gateway', [10])]))
    assert.match(page, /Measured on 2026-03-04T05:06:07\.000Z/)
    assert.match(page, /\| processor \| one \\\| of two \|/)
    assert.match(page, /\| gateway \| 1\.2\.3 \| everything \|/)
  })

  it('tells median and bounds, and the ratio of each round', () => {
    const page = renderResults(reportOf([entryOf('gateway', [10, 40, 30]), entryOf('other', [20, 40, 120])]))
    const row = rowOf(page, 'other')
    assert.equal(row[0], '40.0 (20.0–120.0)')
    assert.equal(row[1], '25,000')
    // Of 0.5, 1 and 0.25; the ratio of the medians would be 0.75.
    assert.equal(row[2], '0.50 (0.25–1.00)')
    assert.equal(row[3], '64 |')
    assert.equal(rowOf(page, 'gateway')[2], '')
  })

  it('has one table of all scenarios at saturation, with the title in the first row of each', () => {
    const report = reportOf([entryOf('one', [10]), entryOf('two', [20])])
    const scenarios = ['Main', 'Other'].flatMap((title) => report.scenarios.map((one) => ({ ...one, title })))
    const page = renderResults({ ...report, scenarios })
    assert.deepEqual(
      [...page.slice(page.indexOf('## Saturation')).matchAll(/^\| (\w*) \| (one|two) \|/gm)].map((row) =>
        row.slice(1),
      ),
      [
        ['Main', 'one'],
        ['', 'two'],
        ['Other', 'one'],
        ['', 'two'],
      ],
    )
    assert.doesNotMatch(page, /^## (?:Main|Other)$/m)
  })

  it('has a column for each that the others are compared with', () => {
    const report = reportOf([entryOf('one', [10]), entryOf('two', [20]), entryOf('three', [40])])
    const scenarios = report.scenarios.map((scenario) => ({ ...scenario, references: ['two'] }))
    const page = renderResults({ ...report, scenarios })
    assert.match(page, /\| CPU of one ÷ this \| CPU of two ÷ this \|/)
    assert.deepEqual(rowOf(page, 'three').slice(2, 4), ['0.25 (0.25–0.25)', '0.50 (0.50–0.50)'])
    assert.deepEqual(rowOf(page, 'two').slice(2, 4), ['0.50 (0.50–0.50)', ''])
  })

  it('tells the CPU of stores apart, and compares with it and without it', () => {
    const stored = entryOf('stored', [10])
    const measures = stored.measures.map((measure) => ({ ...measure, storeUs: 5 }))
    const page = renderResults(reportOf([{ ...stored, measures }, entryOf('other', [20])]))
    assert.equal(rowOf(page, 'stored')[1], '5.0 (5.0–5.0)')
    const row = rowOf(page, 'other')
    assert.equal(row[1], '')
    assert.deepEqual(row.slice(3, 5), ['0.50 (0.50–0.50)', '0.75 (0.75–0.75)'])
  })

  it('names what was skipped and why, and has no row for it', () => {
    const absent = entryOf('absent', [], { skipped: 'not\ninstalled', peakBytes: undefined })
    const page = renderResults(reportOf([entryOf('gateway', [10]), absent]))
    assert.match(page, /^- Skipped: absent: not installed$/m)
    assert.deepEqual(rowOf(page, 'absent'), [''])
  })

  it('has a table of latencies for each fixed rate', () => {
    const at = (round: number, p99: number): Measure => ({
      load: '50 %',
      round,
      perSecond: 1000,
      userUs: 1,
      systemUs: 1,
      latencyUs: { p50: 100, p99, p999: 9000 },
      latenessP99Us: 33,
    })
    const one = entryOf('gateway', [10])
    const other = entryOf('other', [10])
    const page = renderResults(
      reportOf([
        { ...one, measures: [...one.measures, at(1, 300), at(2, 500)] },
        { ...other, measures: [...other.measures, at(1, 600), at(2, 250)] },
      ]),
    )
    const table = page.slice(page.indexOf('| 50 % |'))
    const row = rowOf(table, 'other')
    assert.deepEqual(row.slice(2, 4), ['100', '425 (250–600)'])
    assert.equal(row[5], '1.25 (0.50–2.00)')
    assert.equal(row[6], '33 |')
  })
})

describe('the picture of results', () => {
  it('has a bar for each that was measured, the cheapest first, with its number in words too', () => {
    const entries = [
      entryOf('gateway', [40]),
      entryOf('a <b> & c', [80]),
      entryOf('none', []),
      entryOf('low', [20]),
    ]
    const picture = renderPicture(reportOf(entries)) ?? ''
    assert.match(
      picture,
      /<desc id="d">low: 20\.0 µs; gateway: 40\.0 µs; a &lt;b&gt; &amp; c: 80\.0 µs<\/desc>/,
    )
    assert.equal(picture.match(/class="range"/g)?.length, 3)
    const width = (name: string) =>
      Number(new RegExp(`>${name}</text>\\n<rect class="user"[^>]* width="([\\d.]+)"`).exec(picture)?.[1])
    assert.ok(Math.abs(width('gateway') / width('low') - 2) < 0.01)
    assert.match(picture, /prefers-color-scheme:dark/)
  })

  it('is none when nothing was measured', () => {
    assert.equal(renderPicture(reportOf([entryOf('gateway', [])])), undefined)
  })
})
