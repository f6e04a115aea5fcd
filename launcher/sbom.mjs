import { readFileSync } from 'node:fs'

/**
 * `npm sbom … | node sbom.mjs PACKAGE.JSON ROOT` makes an image's SBOM (CycloneDX 1.5). To npm's modules it adds this Node and
 * the Debian packages below ROOT.
 */
const [, , manifest, root] = process.argv
const { name } = JSON.parse(readFileSync(manifest, 'utf8'))
const { metadata, components, dependencies, ...bom } = JSON.parse(readFileSync(0, 'utf8'))

/** The fields of lines such as `VERSION_ID="13"` or `Package: libc6`, without continued lines. */
function fieldsOf(text) {
  const lines = text.matchAll(/^([\w-]+)(?:=|: )"?(.*?)"?$/gm)
  return Object.fromEntries(Array.from(lines, ([, key, value]) => [key, value]))
}

function component(type, { name, version }, purl, more) {
  return { 'bom-ref': purl, type, name, version, purl, ...more }
}

const { ID, VERSION_ID } = fieldsOf(readFileSync(`${root}/etc/os-release`, 'utf8'))
const system = { 'bom-ref': ID, type: 'operating-system', name: ID, version: VERSION_ID }
const packages = readFileSync(`${root}/var/lib/dpkg/status`, 'utf8')
  .split('\n\n')
  .map(fieldsOf)
  .filter(({ Status = '' }) => Status.endsWith(' installed'))
  .map(({ Package, Version, Architecture }) => {
    const purl = `pkg:deb/${ID}/${encodeURIComponent(Package)}@${encodeURIComponent(Version)}?arch=${Architecture}&distro=${ID}-${VERSION_ID}`
    return component('library', { name: Package, version: Version }, purl)
  })
const { node } = process.versions
const cpe = `cpe:2.3:a:nodejs:node.js:${node}:*:*:*:*:*:*:*`
// npm names the package after its folder, so the package is found by `bom-ref`.
const product = components.find((each) => each['bom-ref'].startsWith(`${name}@`))
const others = components.filter((each) => each !== product)
const workspace = metadata.component['bom-ref']
const runtime = component('application', { name: 'node', version: node }, `pkg:generic/node@${node}`, { cpe })
process.stdout.write(
  JSON.stringify({
    ...bom,
    metadata: { ...metadata, component: { ...product, type: 'application', name } },
    components: [...others, runtime, system, ...packages],
    dependencies: dependencies.filter(({ ref }) => ref !== workspace),
  }),
)
