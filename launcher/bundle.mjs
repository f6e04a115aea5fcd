import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { build } from 'esbuild'

/**
 * `node bundle.mjs DIRECTORY`: makes one file of each program and thread of the gateway that was compiled to DIRECTORY, in place, with
 * the packages that each of them loads at start. Hundreds of files and their modules are 20 MB, and half of the time of a start.
 * What is loaded later stays a file of its own beside it, or a package.
 */
const PROGRAMS = [
  ['audit/seals/seal-thread'],
  ['audit/segments/keeper-thread'],
  ['audit/witness/vouch-thread'],
  ['cluster/run-gateway', 'cluster/worker'],
  ['process/reload/parse-thread'],
]
/** Loaded late or never. */
const PACKAGES = ['@redis/client', 'ajv/dist/2020.js', 'aws4fetch', 'undici', 'yaml']
/** For what packages ask of their own accord. */
const REQUIRE =
  "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);"
const IN_PACKAGE = /[/\\]node_modules[/\\]/

/** Files that a module finds beside itself are not beside the bundle. */
const ownPlaces = (directory) => ({
  name: 'own places',
  setup({ onLoad }) {
    onLoad({ filter: /\.js$/ }, ({ path }) => {
      if (IN_PACKAGE.test(path)) return undefined
      const place = `./${relative(directory, path).replaceAll('\\', '/')}`
      const own = `new URL('${place}', import.meta.url).href`
      return { contents: readFileSync(path, 'utf8').replaceAll(/import\.meta\.url(?!\w)/g, own) }
    })
  },
})

const gateway = join(process.argv[2], 'gateway')
for (const programs of PROGRAMS) {
  const entryPoints = programs.map((name) => join(gateway, `${name}.js`))
  const directory = dirname(entryPoints[0])
  const { metafile } = await build({
    entryPoints,
    outdir: directory,
    allowOverwrite: true,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node26',
    mainFields: ['module', 'main'],
    external: PACKAGES,
    chunkNames: '[name]-[hash]',
    banner: { js: REQUIRE },
    plugins: [ownPlaces(directory)],
    logLevel: 'warning',
    metafile: true,
  })
  for (const file of Object.keys(metafile.outputs)) {
    // One other character, and V8 keeps two bytes of each: 2 MB more.
    if (/[\u0080-\uffff]/.test(readFileSync(file, 'utf8'))) throw new Error(`${file} is not ASCII`)
  }
}
