import { inHtml } from '../edge/syntax/characters.ts'
import { cpuOf, type EntryReport, type Report, SATURATION, spreadAt } from './report.ts'

const WIDTH = 760
const LEFT = 170
const RIGHT = 110
const TOP = 74
const ROW = 34
const BAR = 20

const STYLE = `text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}.quiet{fill:#59636e}.own{font-weight:600}.user{fill:#0969da}.system{fill:#80b8f0}.range{stroke:#1f2328;stroke-width:1.5}.ground{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.user{fill:#4493f8}.system{fill:#1f5499}.range{stroke:#e6edf3}.ground{fill:#0d1117}}`

/** The first scenario's CPU per request as bars, the cheapest first; undefined when nothing was measured. */
export function renderPicture(report: Report): string | undefined {
  const scenario = report.scenarios[0]
  const rows = (scenario?.entries ?? []).flatMap(barOf).toSorted((a, b) => a.total - b.total)
  if (scenario === undefined || rows.length === 0) return undefined
  const scale = (WIDTH - LEFT - RIGHT) / Math.max(...rows.map((row) => row.max))
  const height = TOP + rows.length * ROW + 28
  const title = 'CPU per authenticated request, µs'
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="t d">`,
    `<title id="t">${title}</title>`,
    `<desc id="d">${rows.map((row) => `${inHtml(row.name)}: ${row.total.toFixed(1)} µs`).join('; ')}</desc>`,
    `<style>${STYLE}</style>`,
    `<rect class="ground" width="${WIDTH}" height="${height}"/>`,
    `<text class="title" x="16" y="28">${title}</text>`,
    `<text class="quiet" x="16" y="48">${inHtml(scenario.title)}; less is better; the line spans all rounds</text>`,
    legend(),
    ...rows.map((row, index) => bar(row, TOP + index * ROW, scale)),
    `<text class="quiet" x="16" y="${height - 10}">${inHtml(report.date.slice(0, 10))}, medians of ${report.rounds} interleaved rounds</text>`,
    '</svg>',
    '',
  ].join('\n')
}

interface Bar {
  readonly name: string
  readonly own: boolean
  readonly user: number
  readonly total: number
  readonly min: number
  readonly max: number
}

function barOf(entry: EntryReport, index: number): Bar[] {
  const total = spreadAt(entry, SATURATION, cpuOf)
  const share = spreadAt(entry, SATURATION, (measure) => measure.userUs / cpuOf(measure))
  if (total === undefined || share === undefined) return []
  const user = total.median * share.median
  return [{ name: entry.name, own: index === 0, user, total: total.median, min: total.min, max: total.max }]
}

function bar(row: Bar, y: number, scale: number): string {
  const userWidth = row.user * scale
  const systemWidth = (row.total - row.user) * scale
  const middle = y + BAR / 2
  const weight = row.own ? ' class="own"' : ''
  return [
    `<text${weight} x="${LEFT - 10}" y="${middle + 4}" text-anchor="end">${inHtml(row.name)}</text>`,
    `<rect class="user" x="${LEFT}" y="${y}" width="${userWidth.toFixed(1)}" height="${BAR}"/>`,
    `<rect class="system" x="${(LEFT + userWidth).toFixed(1)}" y="${y}" width="${systemWidth.toFixed(1)}" height="${BAR}"/>`,
    `<line class="range" x1="${(LEFT + row.min * scale).toFixed(1)}" x2="${(LEFT + row.max * scale).toFixed(1)}" y1="${middle}" y2="${middle}"/>`,
    `<text${weight} x="${(LEFT + row.max * scale + 10).toFixed(1)}" y="${middle + 4}">${row.total.toFixed(1)}</text>`,
  ].join('\n')
}

function legend(): string {
  return [
    `<rect class="user" x="${WIDTH - 180}" y="16" width="12" height="12"/>`,
    `<text class="quiet" x="${WIDTH - 162}" y="27">user</text>`,
    `<rect class="system" x="${WIDTH - 110}" y="16" width="12" height="12"/>`,
    `<text class="quiet" x="${WIDTH - 92}" y="27">system</text>`,
  ].join('\n')
}
