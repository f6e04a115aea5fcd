import { copyFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { launch } from './launch.mjs'

/**
 * What `npm pack -w gateway` runs before (`prepack`) and after (`postpack`): a package holds compiled JavaScript, because
 * Node strips no types below node_modules, and the license, which stands outside of gateway/.
 */
const pathOf = (path) => fileURLToPath(new URL(path, import.meta.url))
const compiled = pathOf('../gateway/dist')
const license = pathOf('../gateway/LICENSE')

for (const made of [compiled, license]) rmSync(made, { recursive: true, force: true })
if (process.argv[2] === 'prepack') {
  copyFileSync(pathOf('../LICENSE'), license)
  launch([
    pathOf('../node_modules/typescript/bin/tsc'),
    '-p',
    pathOf('../tsconfig.build.json'),
    '--outDir',
    compiled,
  ])
}
