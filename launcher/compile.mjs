import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { launch } from './launch.mjs'

const PAGE = 'gateway/admin/console/page'
const pathOf = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))

/** Compiles gateway and backend into a directory, in place of this process, and copies the console's page, which is served as it is. */
export function compile(into, options = []) {
  cpSync(pathOf(PAGE), join(into, PAGE), {
    recursive: true,
    filter: (file) => !/(?:\.ts|\.json)$/.test(file),
  })
  const tsc = pathOf('node_modules/typescript/bin/tsc')
  launch([tsc, '-p', pathOf('tsconfig.build.json'), ...options, '--outDir', into])
}
