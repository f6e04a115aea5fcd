import { existsSync } from 'node:fs'
import { checkpointFile, logDirectory } from '../../audit/seals/tiles.ts'
import { DAY_MS, type DayReport, reportDay } from '../../evidence/records/day-report.ts'
import { plural, printable } from '../../terminal/printable.ts'
import { type Command, EXIT, type Given, print, UsageFault } from '../command.ts'
import { ABOUT_FILES, ableTo, FILES, Progress, timeIn, trailsNamed, UNABLE } from './trail-words.ts'

export const command: Command = {
  words: FILES,
  flags: {
    day: { value: 'DAY', about: '2026-11-22, today or yesterday, in UTC; default: yesterday' },
    json: { about: 'as JSON, one report a line' },
  },
  about: [
    'Summarizes a day of the trail for the daily review that PCI DSS 10.4 demands: requests, responses and gRPC calls by status, gaps in the trail, restarts, times with a degraded store, changes of the configuration, seals. Last comes what somebody must look at.',
    'For a day without records, this part says when the trail begins.',
    'The report proves nothing; "audit verify" does.',
    ABOUT_FILES,
  ],
  examples: [
    ['countersign audit report --day today', 'until now'],
    ['countersign audit report --day 2026-11-15 --json data/audit.ndjson', 'for a program'],
  ],
  fault: 'somebody must look at something',
  unable: UNABLE,
  async run({ words, flags }) {
    const dayMs = dayOf(flags)
    const progress = new Progress('reading')
    let needsAttention = false
    for (const { auditFile, segments } of await trailsNamed(words)) {
      const directory = logDirectory(auditFile)
      const log = existsSync(checkpointFile(directory)) ? directory : undefined
      const report = await ableTo(() => reportDay(segments, dayMs, progress.show, log))
      progress.clear()
      const asJson = () => JSON.stringify({ file: auditFile, ...report })
      print(await ableTo(() => (flags.json !== undefined ? asJson() : reportText(auditFile, report))))
      needsAttention ||= report.attention.length > 0
    }
    return needsAttention ? EXIT.fault : EXIT.good
  },
}

function dayOf(flags: Given['flags']): number {
  const day = flags.day ?? 'yesterday'
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  if (day === 'today') return today
  if (day === 'yesterday') return today - DAY_MS
  const ms = day.includes('T') ? Number.NaN : timeIn(day)
  if (Number.isNaN(ms)) throw new UsageFault('--day must be a day: 2026-11-22, today or yesterday')
  return ms
}

/** Escapes texts from files, so that they cannot write lines of their own. */
function reportText(file: string, report: DayReport): string {
  const { requests, responses, unpaired, recovered, starts, seals, longestUnsealedMs } = report
  const listOf = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([status, count]) => `${status}: ${count}`)
  const calls = listOf(report.byGrpcStatus)
  const spans = (found: DayReport['gaps']) =>
    found
      .map(({ from, until, reason }) => `\n    ${printable(`${from} to ${until ?? 'now'}, ${reason}`)}`)
      .join('')
  const wait = longestUnsealedMs === undefined ? '' : `, the longest wait ${Math.round(longestUnsealedMs)} ms`
  return [
    `${printable(file)}, ${report.day} (UTC)`,
    `  requests    ${requests}, responses ${responses}, unpaired ${unpaired}, recovered ${recovered}`,
    `  statuses    ${listOf(report.byStatus).join(', ') || 'none'}`,
    ...(calls.length > 0 ? [`  grpc        ${calls.join(', ')}`] : []),
    `  starts      ${starts}, gaps ${report.gaps.length}${spans(report.gaps)}`,
    `  degraded    ${report.degraded.length}${spans(report.degraded)}`,
    `  config      ${plural(report.configChanges.length, 'change')}${report.configChanges.map(({ at, file: changed }) => `\n    ${printable(`${at} ${changed}`)}`).join('')}`,
    `  seals       ${seals}${wait}`,
    `  pruned      ${plural(report.pruned.length, 'segment')}${report.pruned.map((name) => `\n    ${printable(name)}`).join('')}`,
    report.attention.length === 0
      ? 'nothing needs attention'
      : report.attention.map((text) => `! ${printable(text)}`).join('\n'),
  ].join('\n')
}
