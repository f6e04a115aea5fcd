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

/** The report as a Markdown page: a table of all scenarios at saturation, and what does not fit into it by scenario. */
export function renderResults(report: Report): string {
  return `${[
    '# Results of the benchmark',
    `Measured on ${report.date} by \`npm run bench\`. Every number is the median of the rounds (${report.rounds}, of ${report.secondsPerRound} s each), with the least and the greatest in brackets; contenders take turns within a round, and a ratio is the median of the ratios of the rounds. CPU is what the kernel charged to all processes of the contender, per response. Latency is counted from when a request was meant to start.`,
    '![CPU per request](results.svg)',
    table(['', ''], report.facts),
    table(
      ['contender', 'version', 'what it does for a request'],
      report.contenders
        .filter(({ work }, index) => index === 0 || work !== report.contenders[0]?.work)
        .map(({ name, version, work }) => [name, version, work]),
    ),
    '## Saturation',
    table(
      ['scenario', '', 'CPU µs', 'responses/s', 'CPU of its first ÷ this', 'peak MiB'],
      report.scenarios.filter((scenario) => !hasOwnTable(scenario)).flatMap(saturationRows),
    ),
    ...report.scenarios.flatMap(scenarioSections),
  ].join('\n\n')}\n`
}

/** Compares with several entries, or counts the CPU of stores too. */
function hasOwnTable({ references, entries }: ScenarioReport): boolean {
  return (
    references.some((name) => name !== entries[0]?.name) ||
    entries.some(({ measures }) => measures.some(({ storeUs }) => storeUs !== undefined))
  )
}

function saturationRows(scenario: ScenarioReport): string[][] {
  return measured(scenario, SATURATION).map((entry, index) => [
    index === 0 ? scenario.title : '',
    entry.name,
    spread(spreadAt(entry, SATURATION, cpuOf), 1),
    median(
      spreadAt(entry, SATURATION, (measure) => measure.perSecond),
      0,
    ),
    ratio(scenario.entries[0], entry, { load: SATURATION, value: cpuOf }),
    peakOf(entry),
  ])
}

function scenarioSections(scenario: ScenarioReport): string[] {
  const rates = rateRows(scenario)
  const skipped = scenario.entries.filter((entry) => entry.skipped !== undefined)
  const sections = [
    ...(hasOwnTable(scenario) ? [saturationTable(scenario)] : []),
    ...(rates.length > 0
      ? [
          table(
            [
              'load',
              '',
              'requests/s',
              'CPU µs',
              'p50 µs',
              'p99 µs',
              'p99.9 µs',
              `p99 of ${scenario.entries[0]?.name ?? ''} ÷ this`,
              'generator late p99 µs',
            ],
            rates,
          ),
        ]
      : []),
    ...(skipped.length > 0
      ? [skipped.map(({ name, skipped: why }) => `- Skipped: ${name}: ${oneLine(why ?? '')}`).join('\n')]
      : []),
  ]
  return sections.length > 0 ? [`## ${scenario.title}`, ...sections] : []
}

function saturationTable(scenario: ScenarioReport): string {
  const references = scenario.entries.filter(
    ({ name }, index) => index === 0 || scenario.references.includes(name),
  )
  const ratios = references.map(({ name }) => `CPU of ${name} ÷ this`)
  const entries = measured(scenario, SATURATION)
  const hasStore = entries.some(({ measures }) => measures.some(({ storeUs }) => storeUs !== undefined))
  const storeRatios = hasStore ? references.map(({ name }) => `the same with the stores: ${name}`) : []
  return table(
    ['', 'CPU µs', ...(hasStore ? ['store µs'] : []), 'responses/s', ...ratios, ...storeRatios, 'peak MiB'],
    entries.map((entry) => [
      entry.name,
      spread(spreadAt(entry, SATURATION, cpuOf), 1),
      ...(hasStore
        ? [
            spread(
              spreadAt(entry, SATURATION, ({ storeUs }) => storeUs),
              1,
            ),
          ]
        : []),
      median(
        spreadAt(entry, SATURATION, (measure) => measure.perSecond),
        0,
      ),
      ...references.map((one) => ratio(one, entry, { load: SATURATION, value: cpuOf })),
      ...(hasStore ? references : []).map((one) =>
        ratio(one, entry, { load: SATURATION, value: wholeCpuOf }),
      ),
      peakOf(entry),
    ]),
  )
}

/** Of the whole scenario. */
function peakOf({ peakBytes }: EntryReport): string {
  return peakBytes === undefined ? '' : (peakBytes / 2 ** 20).toFixed(0)
}

function rateRows(scenario: ScenarioReport): string[][] {
  const p99 = (measure: Measure) => measure.latencyUs?.p99
  const loads = new Set(scenario.entries.flatMap(({ measures }) => measures.map(({ load }) => load)))
  loads.delete(SATURATION)
  return [...loads].flatMap((load) =>
    measured(scenario, load).map((entry, index) => [
      index === 0 ? load : '',
      entry.name,
      median(
        spreadAt(entry, load, (measure) => measure.perSecond),
        0,
      ),
      spread(spreadAt(entry, load, cpuOf), 1),
      median(
        spreadAt(entry, load, (measure) => measure.latencyUs?.p50),
        0,
      ),
      spread(spreadAt(entry, load, p99), 0),
      spread(
        spreadAt(entry, load, (measure) => measure.latencyUs?.p999),
        0,
      ),
      ratio(scenario.entries[0], entry, { load, value: p99 }),
      median(
        spreadAt(entry, load, (measure) => measure.latenessP99Us),
        0,
      ),
    ]),
  )
}

function measured(scenario: ScenarioReport, load: string): readonly EntryReport[] {
  return scenario.entries.filter(({ measures }) => measures.some((measure) => measure.load === load))
}

function ratio(
  one: EntryReport | undefined,
  entry: EntryReport,
  of: { readonly load: string; readonly value: (measure: Measure) => number | undefined },
): string {
  if (one === undefined || one === entry) return ''
  return spread(ratioAt({ one, other: entry }, of.load, of.value), 2)
}

function spread(value: Spread | undefined, digits: number): string {
  if (value === undefined) return ''
  return `${number(value.median, digits)} (${number(value.min, digits)}–${number(value.max, digits)})`
}

function median(value: Spread | undefined, digits: number): string {
  return value === undefined ? '' : number(value.median, digits)
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
