import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, stop } from 'esbuild'
import { OPTIONS, ownPlaces, PROGRAMS } from './bundle-options.mjs'

const GATEWAY = fileURLToPath(new URL('../gateway', import.meta.url))
const BACKEND = fileURLToPath(new URL('../backend', import.meta.url))
const PACKAGES = fileURLToPath(new URL('../node_modules', import.meta.url))
/** Packages of hundreds of files that hardly any test loads. All others are bundled: each file costs 0.3 ms in each process. */
const RARE_PACKAGES = OPTIONS.external.filter((name) => name.startsWith('@aws-sdk/'))
/** Packages that are not bundled: the database and the page of the API read files beside their modules. */
const BACKEND_PACKAGES = ['@electric-sql/*', '@fastify/swagger-ui']
/** Programs, or packages that read files beside their modules. */
const TEST_PACKAGES = [
  ...['@grpc/*', 'axe-core', 'esbuild', 'playwright-core', 'typescript'],
  '@seriousme/openapi-schema-validator',
]

/**
 * Bundles `gateway/main.ts` and its threads into a few files, for tests that start hundreds of gateways: each starts with half of
 * the CPU. `start.js` beside it also starts the backend of {@link bundleBackend}. @returns the program
 */
export async function bundleSources(directory) {
  const alone = PROGRAMS.filter(([name]) => name !== 'runtime/run-gateway')
  // Each is bundled by itself: if two were bundled together, the modules that both load would become many small files.
  for (const programs of [['main', 'runtime/run-gateway'], ['start'], ['cli/countersign'], ...alone]) {
    await build({
      ...OPTIONS,
      // A test looks at which files of undici are loaded.
      external: [...RARE_PACKAGES, 'undici'],
      entryPoints: programs.map((name) => join(GATEWAY, `${name}.ts`)),
      outbase: GATEWAY,
      outdir: directory,
      plugins: [ownPlaces('ts', placeBeside(directory))],
    })
  }
  return finish(directory)
}

/** Modules that start threads ask for their own extension: they find bundled threads. Others find files beside the sources. */
function placeBeside(directory) {
  return (path, source) => {
    const file = source.includes("import.meta.url.endsWith('.ts')")
      ? join(directory, relative(GATEWAY, path)).replace(/ts$/, 'js')
      : path
    return JSON.stringify(pathToFileURL(file).href)
  }
}

/** Bundles `backend/main.ts`, which then starts with a third less CPU, and the rotation of keys. @returns the backend's program */
export async function bundleBackend(directory) {
  await build({
    ...OPTIONS,
    entryPoints: ['main', 'identity/rotate-keys'].map((name) => join(BACKEND, `${name}.ts`)),
    outdir: directory,
    inject: [join(BACKEND, 'testing/compile-once.ts')],
    external: BACKEND_PACKAGES,
    plugins: [ownPlaces('ts', (path) => JSON.stringify(pathToFileURL(path).href))],
  })
  return finish(directory)
}

/**
 * Bundles tests with the sources and packages that they load; several files share what they have in common.
 *
 * @param entryPoints modules that import tests by their URLs
 * @param gateway the program of {@link bundleSources}, whose threads the tests start
 * @returns the files, named as `entryPoints`
 */
export async function bundleTests(directory, entryPoints, gateway) {
  // Otherwise `reflect-metadata` may get into another file of the bundle than this package, and load too late.
  const reflectFirst = {
    name: 'reflect first',
    setup: ({ onLoad }) =>
      onLoad({ filter: /x509\.es\.js$/ }, ({ path }) => ({
        contents: `import 'reflect-metadata'\n${readFileSync(path, 'utf8')}`,
      })),
  }
  const byUrl = {
    name: 'by URL',
    setup: ({ onResolve }) => onResolve({ filter: /^file:/ }, ({ path }) => ({ path: fileURLToPath(path) })),
  }
  await build({
    ...OPTIONS,
    entryPoints,
    outdir: directory,
    outExtension: { '.js': '.mjs' },
    external: [...BACKEND_PACKAGES, ...RARE_PACKAGES, ...TEST_PACKAGES],
    sourcemap: true,
    sourcesContent: false,
    plugins: [byUrl, reflectFirst, ownPlaces('ts', placeBeside(dirname(gateway)))],
  })
  await finish(directory)
  return entryPoints.map((path) => join(directory, basename(path)))
}

async function finish(directory) {
  // Otherwise esbuild's process would outlast the tests.
  await stop()
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}')
  // Packages that are loaded later are found by this link.
  symlinkSync(PACKAGES, join(directory, 'node_modules'), 'junction')
  return join(directory, 'main.js')
}
