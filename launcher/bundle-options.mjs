import { readFileSync } from 'node:fs'

/** Programs and threads of the gateway. The entries of a list are bundled together. */
export const PROGRAMS = [
  ['audit/seals/seal-thread'],
  ['audit/segments/keeper-thread'],
  ['audit/witness/attest-thread'],
  ['runtime/reload/parse-thread'],
  ['runtime/run-gateway'],
]
/** Packages that are loaded late or never. */
const PACKAGES = [
  '@aws-sdk/client-s3',
  '@aws-sdk/lib-storage',
  '@redis/client',
  'ajv/dist/2020.js',
  're2js',
  'undici',
  'yaml',
]
const REQUIRE =
  "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);"
const IN_PACKAGE = /[/\\]node_modules[/\\]/

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
 * Replaces `import.meta.url`, because files beside a module are not beside the bundle.
 *
 * @param place makes an expression for a module's URL from its path and source
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
