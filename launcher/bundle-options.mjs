import { readFileSync } from 'node:fs'

/** Programs and threads of the gateway, those together that load mostly the same. */
export const PROGRAMS = [
  ['audit/seals/seal-thread'],
  ['audit/segments/keeper-thread'],
  ['audit/witness/attest-thread'],
  ['runtime/reload/parse-thread'],
  ['runtime/run-gateway'],
]
/** Loaded late or never. */
const PACKAGES = [
  '@aws-sdk/client-s3',
  '@aws-sdk/lib-storage',
  '@redis/client',
  'ajv/dist/2020.js',
  're2js',
  'undici',
  'yaml',
]
/** For what packages ask of their own accord. */
const REQUIRE =
  "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);"
const IN_PACKAGE = /[/\\]node_modules[/\\]/

/** How programs of the gateway become one file each, with the packages that they load at start. */
export const OPTIONS = {
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node26',
  mainFields: ['module', 'main'],
  external: PACKAGES,
  banner: { js: REQUIRE },
  logLevel: 'warning',
}

/**
 * Files that a module finds beside itself are not beside the bundle.
 *
 * @param place expression for the URL of a module, from its path and source
 */
export function ownPlaces(loader, place) {
  return {
    name: 'own places',
    setup({ onLoad }) {
      onLoad({ filter: new RegExp(`\\.${loader}$`) }, ({ path }) => {
        if (IN_PACKAGE.test(path)) return undefined
        const source = readFileSync(path, 'utf8')
        return { loader, contents: source.replaceAll(/import\.meta\.url(?!\w)/g, () => place(path, source)) }
      })
    },
  }
}
