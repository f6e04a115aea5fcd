import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { compile } from './compile.mjs'

/**
 * Runs before (`prepack`) and after (`postpack`) `npm pack -w gateway`. Node strips no types below node_modules, so a
 * package has compiled JavaScript, type declarations, license, launcher and a package.json that exports compiled files.
 */
const pathOf = (path) => fileURLToPath(new URL(path, import.meta.url))
const compiled = pathOf('../gateway/dist')
const license = pathOf('../gateway/LICENSE')
const launcher = pathOf('../gateway/launcher')
const manifest = pathOf('../gateway/package.json')
/** The original manifest, which a killed run leaves behind. */
const kept = pathOf('../gateway/package.json.orig')

for (const made of [compiled, license, launcher]) rmSync(made, { recursive: true, force: true })
if (existsSync(kept)) renameSync(kept, manifest)
if (process.argv[2] === 'prepack') {
  copyFileSync(pathOf('../LICENSE'), license)
  mkdirSync(launcher)
  for (const name of ['find-node.mjs', 'launch.mjs']) copyFileSync(pathOf(name), `${launcher}/${name}`)
  const text = readFileSync(manifest, 'utf8')
  writeFileSync(kept, text)
  writeFileSync(manifest, `${JSON.stringify(packedManifest(JSON.parse(text)), null, 2)}\n`)
  compile(compiled, ['--declaration'])
}

function packedManifest({ scripts: _, exports, ...rest }) {
  const packed = Object.entries(exports).map(([name, target]) => {
    if (!target.endsWith('.ts')) return [name, target]
    const base = `./dist/gateway/${target.slice('./'.length, -'.ts'.length)}`
    return [name, { types: `${base}.d.ts`, default: `${base}.js` }]
  })
  return { ...rest, exports: { ...Object.fromEntries(packed), './schemas/*': './dist/config/schemas/*' } }
}
