import { readFileSync } from 'node:fs'

/** Programs and threads of the gateway. Those in one list are bundled together. */
export const PROGRAMS = [
  ['audit/seals/seal-thread'],
  ['audit/segments/keeper-thread'],
  ['audit/witness/attest-thread'],
  ['runtime/reload/parse-thread'],
  ['runtime/run-gateway'],
]
/** Packages that are loaded late or never, and are not bundled. */
const PACKAGES = [
  '@aws-sdk/client-s3',
  '@aws-sdk/lib-storage',
  '@redis/client',
  'ajv/dist/2020.js',
  're2js',
  'undici',
  'yaml',
]
/** Lets bundled packages call `require`. */
const REQUIRE =
  "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);"
const IN_PACKAGE = /[/\\]node_modules[/\\]/

/** Options that bundle each program into one file, with the packages that it loads at start. */
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
 * Replaces `import.meta.url`: files beside a module are not beside the bundle.
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
