import { readFileSync } from 'node:fs'
import type { Labels } from './metric-families.ts'
import { makeFamilies } from './metric-table.ts'
import { processMetrics } from './metrics.ts'

interface Described {
  readonly name: string
  readonly help?: string
  readonly type: string
  readonly labels: Labels
}

/** docs/reference/metrics.md with new lists; the text above them is written by hand. */
export async function metricsDocument(): Promise<string> {
  const [byHand] = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8').split(
    '## The gateway',
  )
  const gateway = Object.values(makeFamilies()).map((family) =>
    family.type === 'histogram'
      ? { ...family, help: `${family.help} Buckets: ${family.bounds.join(' ')}.` }
      : family,
  )
  return `${byHand}## The gateway\n\n${listOf(gateway)}\n## The process\n\nFrom [prom-client](https://github.com/siimon/prom-client).\n\n${listOf(await ofProcess())}`
}

async function ofProcess(): Promise<Described[]> {
  const registry = processMetrics()
  const metrics = await registry.getMetricsAsJSON()
  return metrics.map(({ name, type }) => {
    // The library's types omit label names.
    const { labelNames = [] } = registry.getSingleMetric(name) as { labelNames?: Labels }
    return { name, type: String(type), labels: labelNames }
  })
}

function listOf(metrics: readonly Described[]): string {
  const lines = metrics.map(({ name, type, labels, help }) => {
    const kind = [type, ...labels.map((label) => `\`${label}\``)].join(' ')
    return `- \`${name}\` (${kind})${help === undefined ? '' : `: ${help}`}\n`
  })
  return lines.join('')
}
