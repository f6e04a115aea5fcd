import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { build } from 'esbuild'
import { OPTIONS, ownPlaces, PROGRAMS } from './bundle-options.mjs'

/**
 * `node bundle.mjs DIRECTORY` bundles, in place, each program of the gateway that was compiled to DIRECTORY, with the
 * packages that it loads at start. Separate modules cost 20 MB and half of the time of a start.
 */
const gateway = join(process.argv[2], 'gateway')
for (const programs of PROGRAMS) {
  const entryPoints = programs.map((name) => join(gateway, `${name}.js`))
  const directory = dirname(entryPoints[0])
  const place = (path) =>
    `new URL('./${relative(directory, path).replaceAll('\\', '/')}', import.meta.url).href`
  const { metafile } = await build({
    ...OPTIONS,
    entryPoints,
    outdir: directory,
    allowOverwrite: true,
    chunkNames: '[name]-[hash]',
    plugins: [ownPlaces('js', place)],
    metafile: true,
  })
  for (const file of Object.keys(metafile.outputs)) {
    // One character outside ASCII makes V8 keep two bytes for each character: 2 MB more.
    if (/[\u0080-\uffff]/.test(readFileSync(file, 'utf8'))) throw new Error(`${file} is not ASCII`)
  }
}
