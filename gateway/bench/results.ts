import {
  cpuOf,
  type EntryReport,
  type Measure,
  type Report,
  ratioAt,
  SATURATION,
  type ScenarioReport,
  spreadAt,
  wholeCpuOf,
} from './report.ts'
import type { Spread } from './statistics.ts'

type Value = (measure: Measure) => number | undefined

const p99 = (measure: Measure) => measure.latencyUs?.p99

/** A Markdown page: a row for each scenario and load compares the first contender with the others. */
export function renderResults(report: Report): string {
  const skipped = report.scenarios.flatMap((scenario) =>
    scenario.entries.flatMap(({ name, skipped: why }) =>
      why === undefined ? [] : [`- Skipped: ${name} in "${scenario.title}": ${oneLine(why)}`],
    ),
  )
  return `${[
    '# Results of the benchmark',
    `Measured on ${report.date} by \`npm run bench\`. Every number is the median of ${report.rounds} rounds of ${report.secondsPerRound} s, with the least and the greatest round in brackets. Contenders take turns within a round. Unless a row says otherwise, 64 connections send GETs with an RS256 token seen before, to a path with a limit. A ratio is the median of the rounds' ratios. CPU is the CPU time of all processes of the contender, divided by the responses. Latency counts from the time when a request was due to be sent. \`results.csv\` has every round.`,
    '![CPU per request](results.svg)',
    table(['', ''], report.facts),
    table(
      ['contender', 'version', 'what it does for a request'],
      report.contenders
        .filter(({ work }, index) => index === 0 || work !== report.contenders[0]?.work)
        .map(({ name, version, work }) => [name, version, work]),
    ),
    '## CPU at saturation',
    table(
      ['scenario', 'contender', 'CPU µs', 'its CPU ÷ the CPU of'],
      report.scenarios.flatMap((scenario) => comparison(scenario, SATURATION, cpuOf, 1)),
    ),
    '## p99 at fixed rates',
    table(
      ['scenario', 'contender', 'p99 µs', 'its p99 ÷ the p99 of'],
      report.scenarios.flatMap((scenario) =>
        ratesOf(scenario).flatMap((load) => comparison(scenario, load, p99, 0)),
      ),
    ),
    ...(skipped.length === 0 ? [] : [skipped.join('\n')]),
  ].join('\n\n')}\n`
}

/** A row for the first contender and each further reference. */
function comparison(scenario: ScenarioReport, load: string, value: Value, digits: number): string[][] {
  const measured = scenario.entries.filter((entry) => spreadAt(entry, load, value) !== undefined)
  const references = measured.filter(
    ({ name }) => name === scenario.entries[0]?.name || scenario.references.includes(name),
  )
  const title = load === SATURATION ? scenario.title : `${scenario.title}: ${load}`
  return references.map((one, index) => [
    index === 0 ? title : '',
    one.name,
    spread(spreadAt(one, load, value), digits),
    measured
      .filter((other) => other !== one)
      .map((other) => `${other.name} ${ratio(one, other, load, value)}`)
      .join('; '),
  ])
}

function ratio(one: EntryReport, other: EntryReport, load: string, value: Value): string {
  const own = spread(ratioAt({ one, other }, load, value), 2)
  const hasStore = [one, other].some((entry) => spreadAt(entry, load, ({ storeUs }) => storeUs) !== undefined)
  if (value !== cpuOf || !hasStore) return own
  return `${own}, including the store’s CPU ${spread(ratioAt({ one, other }, load, wholeCpuOf), 2)}`
}

function ratesOf({ entries }: ScenarioReport): readonly string[] {
  const loads = new Set(entries.flatMap(({ measures }) => measures.map(({ load }) => load)))
  loads.delete(SATURATION)
  return [...loads]
}

/** Every round as CSV (RFC 4180). */
export function renderRounds(report: Report): string {
  const head =
    'scenario,contender,load,round,per_second,user_us,system_us,store_us,p50_us,p99_us,p999_us,late_p99_us,peak_bytes'
  const rows = report.scenarios.flatMap(({ id, entries }) =>
    entries.flatMap(({ name, peakBytes, measures }) =>
      measures.map(({ load, round, perSecond, userUs, systemUs, storeUs, latencyUs, latenessP99Us }) => {
        const times = [
          userUs,
          systemUs,
          storeUs,
          latencyUs?.p50,
          latencyUs?.p99,
          latencyUs?.p999,
          latenessP99Us,
        ]
        const numbers = times.map((time) => (time === undefined ? '' : time.toFixed(1)))
        return [
          id,
          quoted(name),
          quoted(load),
          round,
          perSecond.toFixed(0),
          ...numbers,
          peakBytes ?? '',
        ].join(',')
      }),
    ),
  )
  return `${[head, ...rows].join('\r\n')}\r\n`
}

function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}

function spread(value: Spread | undefined, digits: number): string {
  if (value === undefined) return ''
  return `${number(value.median, digits)} (${number(value.min, digits)}–${number(value.max, digits)})`
}

function number(value: number, digits: number): string {
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(oneLine).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|')
}
