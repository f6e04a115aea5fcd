import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, stop } from 'esbuild'
import { OPTIONS, ownPlaces, PROGRAMS } from './bundle-options.mjs'

const GATEWAY = fileURLToPath(new URL('../gateway', import.meta.url))
const BACKEND = fileURLToPath(new URL('../backend', import.meta.url))
const PACKAGES = fileURLToPath(new URL('../node_modules', import.meta.url))
/** Packages of hundreds of files that few tests load. Others are bundled, because a file costs a process 0.3 ms. */
const RARE_PACKAGES = OPTIONS.external.filter((name) => name.startsWith('@aws-sdk/'))
/** The database and Swagger UI read files beside their modules. */
const BACKEND_PACKAGES = ['@electric-sql/*', '@fastify/swagger-ui']
const TEST_PACKAGES = [
  ...['@grpc/*', 'axe-core', 'esbuild', 'playwright-core', 'typescript'],
  '@seriousme/openapi-schema-validator',
]

/**
 * Bundles `gateway/main.ts` and its threads for tests: a gateway starts with half of the CPU. `start.js` also starts the backend
 * of {@link bundleBackend}. Returns the program.
 */
export async function bundleSources(directory) {
  const alone = PROGRAMS.filter(([name]) => name !== 'runtime/run-gateway')
  // One by one, because modules shared in one bundle would become many small files.
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

/** Modules that start threads get a URL beside the bundled threads. Other modules keep the URL of their source. */
function placeBeside(directory) {
  return (path, source) => {
    const file = source.includes("import.meta.url.endsWith('.ts')")
      ? join(directory, relative(GATEWAY, path)).replace(/ts$/, 'js')
      : path
    return JSON.stringify(pathToFileURL(file).href)
  }
}

/** Bundles `backend/main.ts` and the rotation of keys. Returns the backend's program. */
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
 * Bundles tests with what they load. Several bundles share common parts.
 *
 * @param entryPoints modules that import tests by URL
 * @param gateway the program of {@link bundleSources}, whose threads the tests start
 * @returns files named as `entryPoints`
 */
export async function bundleTests(directory, entryPoints, gateway) {
  // Otherwise `reflect-metadata` may get into another file of the bundle and load too late.
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
  // esbuild's process would outlast the tests.
  await stop()
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}')
  // Lets Node find packages that are loaded later.
  symlinkSync(PACKAGES, join(directory, 'node_modules'), 'junction')
  return join(directory, 'main.js')
}
