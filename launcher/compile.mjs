import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { launch } from './launch.mjs'

const PAGES = ['gateway/admin/console/page', 'backend/resources/reference/page']
const pathOf = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** Copies the pages, then compiles gateway and backend. This process ends with the compiler. */
export function compile(into, options = []) {
  for (const page of PAGES) {
    cpSync(pathOf(page), join(into, page), {
      recursive: true,
      filter: (file) => !/(?:\.ts|\.json)$/.test(file),
    })
  }
  cpSync(pathOf('docs/operate/runbook.md'), join(into, 'gateway/admin/console/page/runbook.md'))
  const tsc = pathOf('node_modules/typescript/bin/tsc')
  launch([tsc, '-p', pathOf('tsconfig.build.json'), ...options, '--outDir', into])
}
