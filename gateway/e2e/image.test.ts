import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { freePort } from '../../backend/testing/free-port.ts'
import packageJson from '../package.json' with { type: 'json' }
import { buildImages, copyModules, npm, type Stage } from './image-build.ts'
import { until } from './running-gateway.ts'

const SECRET = 'a-secret-that-is-long-enough-for-both-of-them'
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** PGlite's WebAssembly is slow to compile on a busy machine. */
const READY_MS = 60_000

/** A test of a service that uses the package's exports, to be run and type-checked. */
const SERVICE_TEST = `
import { startGateway, type TestGateway } from 'countersign/testing'
import schema from 'countersign/schemas/limits.schema.json' with { type: 'json' }

const routes = [{ path: '/*', auth: ['none'] }]
const gateway: TestGateway = await startGateway({ upstream: 'http://127.0.0.1:9', config: { routes } })
const { status } = await fetch(gateway.url)
await gateway.stop()
// @ts-expect-error: a URL is no number, so the types are there
const number: number = gateway.url
console.log(status, schema.title, typeof number)
`

function checkExports(dir: string): void {
  writeFileSync(join(dir, 'service.test.mts'), SERVICE_TEST)
  const options = { cwd: dir, encoding: 'utf8', env: { ...process.env, NODE_V8_COVERAGE: '' } } as const
  const { stdout, stderr } = spawnSync(process.execPath, ['service.test.mts'], options)
  assert.match(stdout, /^502 \S.* string\n$/, stderr)
  const compilerOptions = {
    strict: true,
    noEmit: true,
    module: 'nodenext',
    target: 'es2024',
    types: ['node'],
    typeRoots: [join(ROOT, 'node_modules/@types')],
  }
  writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['service.test.mts'] }))
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  const { status, stdout: faults } = spawnSync(process.execPath, [tsc, '-p', '.'], options)
  assert.equal(status, 0, faults)
}

describe('what the images and the package are made of', () => {
  const root = mkdtempSync(join(tmpdir(), 'countersign-image-'))
  const running: ChildProcess[] = []
  let stages: Map<string, Stage>

  before(() => {
    stages = buildImages(root)
  })

  after(async () => {
    for (const child of running) {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    }
    rmSync(root, { recursive: true, force: true })
  })

  const modulesOf = (dir: string) => readdirSync(join(dir, 'node_modules'))

  /** Checks that the image's SBOM names the product, Node, Debian with its packages, and all modules, with versions. */
  function checkSbom({ dir, labels }: Stage, name: string): void {
    const { metadata, components } = JSON.parse(readFileSync(join(dir, 'sbom.cdx.json'), 'utf8'))
    const listed = components.map(({ purl = '' }: { purl?: string }) => decodeURIComponent(purl))
    const { version } = JSON.parse(readFileSync(join(ROOT, `${name}/package.json`), 'utf8'))
    assert.match(metadata.component.name, /^countersign/)
    assert.equal(metadata.component.version, version)
    assert.ok(listed.includes(`pkg:generic/node@${process.versions.node}`))
    assert.ok(listed.includes('pkg:deb/debian/libstdc++6@14.2.0-19+b1?arch=amd64&distro=debian-13'))
    assert.equal(listed.filter((purl: string) => purl.startsWith('pkg:deb/')).length, 1)
    const system = components.find(({ type }: { type: string }) => type === 'operating-system')
    assert.deepEqual([system.name, system.version], ['debian', '13'])
    const refs = components.map((each: { 'bom-ref': string }) => each['bom-ref'])
    assert.equal(new Set(refs).size, refs.length)
    const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).packages
    const installed = globSync('node_modules/{*,@*/*}/package.json', { cwd: dir })
      .map((file) => JSON.parse(readFileSync(join(dir, file), 'utf8')))
      .map((module) => `pkg:npm/${module.name}@${module.version}`)
    assert.ok(installed.length > 20, installed.join())
    assert.deepEqual(
      installed.filter((purl) => !listed.includes(purl)),
      [],
    )
    assert.equal(labels['org.opencontainers.image.title'], `countersign-${name}`)
    assert.equal(labels['org.opencontainers.image.version'], lock[name].version)
  }

  /** Checks that the image has no npm, and /app only what runs: no lock file, dangling link or empty folder. */
  function checkContents({ root: image, dir }: Stage, files: readonly string[]): void {
    assert.deepEqual(readdirSync(join(image, 'usr/local'), { recursive: true }).sort(), ['bin', 'bin/node'])
    assert.deepEqual(readdirSync(join(image, 'opt')), [])
    assert.deepEqual(
      readdirSync(dir).sort(),
      ['data', ...files, 'node_modules', 'package.json', 'sbom.cdx.json'].sort(),
    )
    const useless = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => {
      const path = join(entry.parentPath, entry.name)
      if (entry.isDirectory()) return path !== join(dir, 'data') && readdirSync(path).length === 0
      return entry.isSymbolicLink() ? !existsSync(path) : /package-lock\.json$/.test(entry.name)
    })
    assert.deepEqual(useless, [])
  }

  /** Starts the command of an image, and waits until its health check succeeds. */
  async function start(stage: Stage, env: Record<string, string>): Promise<void> {
    const { dir, command, healthCheck } = stage
    assert.equal(command[0], 'node')
    const { PATH } = process.env
    const options = { cwd: dir, env: { PATH, ...stage.env, ...env } as Record<string, string> }
    const child = spawn(process.execPath, command.slice(1), {
      ...options,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    running.push(child)
    let log = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
    const isHealthy = () => {
      assert.equal(child.exitCode, null, log)
      const { status } = spawnSync(process.execPath, healthCheck.slice(1), options)
      return status === 0 ? true : undefined
    }
    await until(isHealthy, READY_MS)
  }

  it('the images have the version of Node that the npm scripts run on', () => {
    const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const bases = readFileSync(join(ROOT, 'Dockerfile'), 'utf8').matchAll(/^FROM node:(\S+)-slim /gm)
    assert.deepEqual(
      new Set([...bases].map(([, version]) => version)),
      new Set(Object.values(optionalDependencies)),
    )
  })

  it('the workflow attaches provenance and an SBOM to each image', () => {
    const { jobs } = parse(readFileSync(join(ROOT, '.github/workflows/ci.yml'), 'utf8'))
    const { strategy, steps, permissions } = jobs.images
    const targets = [...stages.keys()].filter((name) => (stages.get(name) as Stage).command.length > 0)
    assert.deepEqual(strategy.matrix.target.toSorted(), targets.toSorted())
    const build = steps.find(({ uses = '' }) => uses.startsWith('docker/build-push-action@')).with
    assert.deepEqual([build.push, build.provenance, build.sbom], [true, 'mode=max', true])
    assert.deepEqual(permissions, { contents: 'read', packages: 'write' })
  })

  it('the image of the gateway runs with the modules of the gateway alone', async (t) => {
    const stage = stages.get('gateway') as Stage
    assert.deepEqual(readdirSync(join(stage.dir, 'dist')).sort(), ['config', 'gateway'])
    for (const other of ['fastify', '@electric-sql', 'typescript']) {
      assert.ok(!modulesOf(stage.dir).includes(other), other)
    }
    assert.ok(modulesOf(stage.dir).includes('@aws-sdk'), 'optional peers are in the image')
    checkContents(stage, ['config', 'dist'])
    checkSbom(stage, 'gateway')
    const [port, adminPort] = [await freePort(), await freePort()]
    // The health check must find the admin listener at the port in the file.
    const file = join(root, 'gateway.json')
    const bucket = createServer((_, response) => response.writeHead(404).end()).listen(0, '127.0.0.1')
    t.after(() => bucket.close())
    const asked = once(bucket, 'request', { signal: AbortSignal.timeout(READY_MS) })
    await once(bucket, 'listening')
    const endpoint = `http://127.0.0.1:${(bucket.address() as AddressInfo).port}`
    const audit = { rotation: { maxAge: '1s' }, ship: { s3: { endpoint, bucket: 'evidence' } } }
    writeFileSync(file, JSON.stringify({ adminPort, audit, routes: [{ path: '/api/*', auth: ['none'] }] }))
    const keys = { AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE', AWS_SECRET_ACCESS_KEY: 'secret' }
    await start(stage, { GATEWAY_PORT: String(port), GATEWAY_CONFIG: file, ...keys })
    const runbook = await fetch(`http://127.0.0.1:${adminPort}/runbook`)
    assert.match(await runbook.text(), /<h2 id="countersigndown">/)
    const { status, headers } = await fetch(`http://127.0.0.1:${port}/nothing`)
    assert.equal(status, 404)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    // The image has the AWS SDK, which asks whether the first segment is there.
    const [{ method, url }] = await asked
    assert.match(`${method} ${url}`, /^HEAD \/evidence\/audit\.ndjson\.\w+$/)
  })

  it('the image of the backend runs with the modules of the backend alone', async () => {
    const stage = stages.get('backend') as Stage
    assert.deepEqual(readdirSync(join(stage.dir, 'dist')), ['backend'])
    for (const other of ['@aws-sdk', 'undici', 're2js', 'typescript']) {
      assert.ok(!modulesOf(stage.dir).includes(other), other)
    }
    checkContents(stage, ['dist'])
    checkSbom(stage, 'backend')
    const secret = join(root, 'secret')
    writeFileSync(secret, SECRET, { mode: 0o600 })
    const port = await freePort()
    await start(stage, { BACKEND_PORT: String(port), BACKEND_GATEWAY_SECRET_FILE: secret })
    const { status } = await fetch(`http://127.0.0.1:${port}/openapi.json`, {
      headers: { 'X-Gateway-Secret': SECRET },
    })
    assert.equal(status, 200)
  })

  it('the package of the gateway runs in an empty folder, and holds nothing of the backend', async () => {
    const { dir: checkout } = stages.get('build') as Stage
    const dir = join(root, 'empty')
    mkdirSync(join(dir, 'node_modules'), { recursive: true })
    const [packed] = JSON.parse(npm(['pack', '-w', 'gateway', '--pack-destination', dir, '--json'], checkout))
    const files: string[] = packed.files.map(({ path }: { path: string }) => path)
    for (const wanted of ['dist/gateway/main.js', 'LICENSE', 'README.md'])
      assert.ok(files.includes(wanted), wanted)
    const unexpected = files.filter(
      (path) =>
        !/^(package\.json|LICENSE|README\.md|cli\/countersign\.mjs|launcher\/.+\.mjs|dist\/gateway\/.+\.js(on)?|dist\/gateway\/testing\/.+\.d\.ts|dist\/gateway\/admin\/console\/page\/\w+\.(html|css|svg|md)|dist\/config\/schemas\/.+\.json)$/.test(
          path,
        ),
    )
    assert.deepEqual(unexpected, [])
    const left = readdirSync(join(checkout, 'gateway'))
    for (const made of ['dist', 'launcher', 'package.json.orig'])
      assert.equal(left.includes(made), false, made)
    assert.equal(
      readFileSync(join(checkout, 'gateway/package.json'), 'utf8'),
      readFileSync(join(ROOT, 'gateway/package.json'), 'utf8'),
    )

    // Installs it as npm does.
    spawnSync('tar', ['-xzf', packed.filename, '-C', 'node_modules'], { cwd: dir })
    renameSync(join(dir, 'node_modules/package'), join(dir, 'node_modules/countersign'))
    copyModules('gateway', dir)
    const command = (...args: string[]) => {
      const file = join(dir, 'node_modules/countersign/cli/countersign.mjs')
      const env = { PATH: process.env.PATH } as Record<string, string>
      const { status, stdout, stderr } = spawnSync(process.execPath, [file, ...args], {
        cwd: dir,
        env,
        encoding: 'utf8',
      })
      return { status, said: stdout + stderr }
    }
    assert.deepEqual(command('--version'), { status: 0, said: `${packageJson.version}\n` })
    assert.equal(command('init', '--upstream', 'http://127.0.0.1:9').status, 0)
    assert.match(command('validate').said, /gateway\.json: OK, routes: 1\n/)
    assert.match(command('certs', 'demo').said, /npm install --save-dev @peculiar\/x509/)
    assert.match(command('keys', 'rotate').said, /there is no backend here/)
    checkExports(dir)
    const route = { path: '/*', methods: ['GET'], auth: ['none'] }
    writeFileSync(
      join(dir, 'gateway.json'),
      JSON.stringify({ upstream: 'http://127.0.0.1:9', routes: [route] }),
    )
    writeFileSync(join(dir, 'limits.json'), JSON.stringify({ limits: [] }))
    const [port, adminPort] = [await freePort(), await freePort()]
    const countersign = ['node', 'node_modules/countersign/cli/countersign.mjs']
    await start(
      {
        root: dir,
        dir,
        env: {},
        labels: {},
        command: [...countersign, 'run', '--config', 'gateway.json'],
        healthCheck: [...countersign, 'health', '--live'],
      },
      {
        GATEWAY_LIMITS: 'limits.json',
        GATEWAY_PORT: String(port),
        GATEWAY_ADMIN_PORT: String(adminPort),
      },
    )
    assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 502)
    for (const path of ['/', '/console/main.js', '/console/console.css', '/console/uPlot.js'])
      assert.equal((await fetch(`http://127.0.0.1:${adminPort}${path}`)).status, 200, path)
  })
})
