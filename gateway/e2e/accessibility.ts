import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'

const AXE = readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
/** Checks WCAG 2.2 A and AA, and what axe calls best practice. */
const runIn = (
  part: string,
) => `axe.run(${JSON.stringify(part)}, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
  nodes.map(({ target, failureSummary }) => id + ' ' + target.join(' ') + ': ' + failureSummary)))`

/** axe's findings, a line each. @param part selects what is looked at */
export async function accessibilityFindings(page: Page, part = 'html'): Promise<string[]> {
  // axe is half a megabyte long, so a page loads it once.
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(AXE)
  return (await page.evaluate(runIn(part))) as string[]
}
