import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { renderPicture } from './picture.ts'
import type { EntryReport, Measure, Report } from './report.ts'
import { renderResults, renderRounds } from './results.ts'

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

/** Cells of the row of a contender that is compared with others. */
function rowOf(page: string, name: string): string[] {
  const line = page.split('\n').find((text) => text.includes(` | ${name} | `) && text.includes('('))
  return line?.replace(/^\| | \|$/g, '').split(' | ') ?? []
}

function atRate(round: number, p99: number): Measure {
  return {
    load: '50 %',
    round,
    perSecond: 1000,
    userUs: 1,
    systemUs: 1,
    latencyUs: { p50: 100, p99, p999: 9000 },
    latenessP99Us: 33,
  }
}

describe('the page of results', () => {
  it('is dated, and names machine and versions', () => {
    const page = renderResults(reportOf([entryOf('gateway', [10])]))
    assert.match(page, /Measured on 2026-03-04T05:06:07\.000Z/)
    assert.match(page, /\| processor \| one \\\| of two \|/)
    assert.match(page, /\| gateway \| 1\.2\.3 \| everything \|/)
  })

  it('links no file that only the machine of the run has', () => {
    const page = renderResults(reportOf([entryOf('gateway', [10])]))
    assert.deepEqual(page.match(/(?<=\]\()[^)]*/g), ['results.svg'])
  })

  it('tells median and bounds, and the ratio of each round', () => {
    const page = renderResults(reportOf([entryOf('gateway', [10, 40, 30]), entryOf('other', [20, 40, 120])]))
    // The median of 0.5, 1 and 0.25. The ratio of the medians would be 0.75.
    assert.deepEqual(rowOf(page, 'gateway'), [
      'The main work',
      'gateway',
      '30.0 (10.0–40.0)',
      'other 0.50 (0.25–1.00)',
    ])
  })

  it('has a row for each contender that the others are compared with', () => {
    const report = reportOf([entryOf('one', [10]), entryOf('two', [20]), entryOf('three', [40])])
    const scenarios = report.scenarios.map((scenario) => ({ ...scenario, references: ['two'] }))
    const page = renderResults({ ...report, scenarios })
    assert.equal(rowOf(page, 'one')[3], 'two 0.50 (0.50–0.50); three 0.25 (0.25–0.25)')
    assert.equal(rowOf(page, 'two')[3], 'one 2.00 (2.00–2.00); three 0.50 (0.50–0.50)')
  })

  it('compares with the CPU of stores and without it', () => {
    const stored = entryOf('stored', [10])
    const measures = stored.measures.map((measure) => ({ ...measure, storeUs: 5 }))
    const page = renderResults(reportOf([{ ...stored, measures }, entryOf('other', [20])]))
    assert.equal(
      rowOf(page, 'stored')[3],
      'other 0.50 (0.50–0.50), including the store’s CPU 0.75 (0.75–0.75)',
    )
  })

  it('names skipped contenders with the reason, and compares none of them', () => {
    const absent = entryOf('absent', [], { skipped: 'not\ninstalled', peakBytes: undefined })
    const page = renderResults(reportOf([entryOf('gateway', [10]), absent]))
    assert.match(page, /^- Skipped: absent in "The main work": not installed$/m)
    assert.match(page, /\| gateway \| 10\.0 \(10\.0–10\.0\) \| {2}\|$/m)
  })

  it('compares p99 at each fixed rate', () => {
    const one = entryOf('gateway', [10])
    const other = entryOf('other', [10])
    const page = renderResults(
      reportOf([
        { ...one, measures: [...one.measures, atRate(1, 300), atRate(2, 500)] },
        { ...other, measures: [...other.measures, atRate(1, 600), atRate(2, 250)] },
      ]),
    )
    assert.deepEqual(rowOf(page.slice(page.indexOf('## p99')), 'gateway'), [
      'The main work: 50 %',
      'gateway',
      '400 (300–500)',
      'other 1.25 (0.50–2.00)',
    ])
  })
})

describe('the rounds of the results', () => {
  it('have a line for each round and load of each contender, with empty fields for missing values', () => {
    const entry = entryOf('gateway, "on"', [10])
    const report = reportOf([{ ...entry, measures: [...entry.measures, atRate(1, 300)] }])
    const [head, ...lines] = renderRounds(report).trimEnd().split('\r\n')
    assert.match(head ?? '', /^scenario,contender,load,round,/)
    assert.deepEqual(lines, [
      'main,"gateway, ""on""","saturation",1,100000,2.5,7.5,,,,,,67108864',
      'main,"gateway, ""on""","50 %",1,1000,1.0,1.0,,100.0,300.0,9000.0,33.0,67108864',
    ])
  })
})

describe('the picture of results', () => {
  it('has a bar for each measured contender, the cheapest first, and a text with the numbers', () => {
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

  it('is not drawn when nothing was measured', () => {
    assert.equal(renderPicture(reportOf([entryOf('gateway', [])])), undefined)
  })
})
