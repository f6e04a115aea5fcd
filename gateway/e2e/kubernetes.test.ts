import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Ajv } from 'ajv'
import { parse, parseAllDocuments } from 'yaml'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { run } from './child-process.ts'
import { call } from './client.ts'
import { until } from './running-gateway.ts'

const FOLDER = fileURLToPath(new URL('../../config/kubernetes/', import.meta.url))
const MOUNTED_SECRETS = '/run/secrets/countersign'
const SECRET = 'a-secret-that-is-long-enough-for-both-of-them'
/** A stop without `timeouts.drainMs`: the default grace, half a second for the last refusals, and the end. */
const STOP_SECONDS = 2 + 0.5 + 7
/** The most for `timeouts.drainMs`, by the README. */
const MOST_DRAIN_MS = Number(
  /`timeouts\.drainMs` may be raised to (\d+)/.exec(readFileSync(join(FOLDER, 'README.md'), 'utf8'))?.[1],
)
const has = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
const NO_VALIDATOR = has('kubernetes-validate')
  ? false
  : 'NOT TESTED: kubernetes-validate is not installed (pip install kubernetes-validate)'

/** Values that consist of our own values. All others go to Kubernetes as they are. */
const GROUPS: ReadonlySet<string> = new Set([
  'service',
  'gateway',
  'storage',
  'podMonitor',
  'prometheusRule',
  'serviceAccount',
])

interface Probe {
  readonly httpGet: { readonly path: string }
}

interface Container {
  readonly name: string
  readonly restartPolicy?: string
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly ports: readonly { readonly containerPort: number }[]
  readonly volumeMounts: readonly { readonly mountPath: string }[]
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly startupProbe: Probe
  readonly readinessProbe: Probe
  readonly livenessProbe: Probe
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } }
}

interface Port {
  readonly port: number | string
  readonly targetPort?: number | string
}

interface Manifest {
  readonly kind: string
  readonly data: Readonly<Record<string, string>>
  readonly spec: {
    readonly ports?: readonly Port[]
    readonly ingress?: readonly { readonly ports: readonly Port[] }[]
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number
        readonly initContainers: readonly [Container]
        readonly containers: readonly [Container]
      }
    }
  }
}

interface Objective {
  readonly objective: number
  readonly fast: readonly { readonly rate: number; readonly long: string; readonly short: string }[]
  readonly slow: Objective['fast']
}

type Groups = readonly { readonly rules: readonly { readonly record?: string; readonly alert?: string }[] }[]

function manifestsOf(file: string): Map<string, Manifest> {
  const documents = parseAllDocuments(readFileSync(join(FOLDER, file), 'utf8'), { strict: true })
  return new Map(documents.map((document) => [document.get('kind') as string, document.toJS() as Manifest]))
}

function hashOfChart(values: string): string {
  const hash = createHash('sha256')
  for (const file of [...globSync('chart/**/*.*', { cwd: FOLDER }).sort(), values]) {
    hash.update(`${file}\n`).update(readFileSync(join(FOLDER, file)))
  }
  return hash.digest('hex')
}

function runInFolder(command: string) {
  const [program = '', ...rest] = command.split(' ')
  return spawnSync(program, rest, { cwd: FOLDER, encoding: 'utf8' })
}

/** Mounts or replaces a ConfigMap as the kubelet does, by swapping the link `..data`. */
function mount(dir: string, data: Readonly<Record<string, string>>): void {
  const version = mkdtempSync(join(dir, '..version-'))
  for (const [name, text] of Object.entries(data)) writeFileSync(join(version, name), text)
  symlinkSync(version, join(dir, '..next'))
  renameSync(join(dir, '..next'), join(dir, '..data'))
}

for (const file of ['sidecar.yaml', 'example-rendered.yaml', 'full-rendered.yaml']) {
  it(`${file} fits the schemas of the Kubernetes API`, { skip: NO_VALIDATOR }, () => {
    const arguments_ = ['--strict', '-k', '1.33', join(FOLDER, file)]
    const { status, stdout, stderr } = spawnSync('kubernetes-validate', arguments_, { encoding: 'utf8' })
    assert.equal(status, 0, stdout + stderr)
  })
}

for (const file of ['sidecar.yaml', 'example-rendered.yaml']) {
  describe(`config/kubernetes/${file}`, () => {
    const dir = temporaryDirectory({ after })
    const manifests = manifestsOf(file)
    const pod = (manifests.get('StatefulSet') as Manifest).spec.template.spec
    const [sidecar] = pod.initContainers
    const { data } = manifests.get('ConfigMap') as Manifest

    it('has the gateway as a sidecar that may write to its data only, and time to drain', () => {
      assert.equal(sidecar.restartPolicy, 'Always')
      for (const { securityContext } of [sidecar, ...pod.containers]) {
        assert.equal(securityContext.readOnlyRootFilesystem, true)
        assert.equal(securityContext.allowPrivilegeEscalation, false)
      }
      const [service] = pod.containers
      // Kubernetes ends the service first. Without a pause it would be gone while requests still come.
      const pauseSeconds = service.lifecycle?.preStop.sleep.seconds ?? 0
      assert.ok(pauseSeconds >= 5)
      assert.ok(MOST_DRAIN_MS > 6000)
      assert.ok(pod.terminationGracePeriodSeconds >= pauseSeconds + STOP_SECONDS + MOST_DRAIN_MS / 1000)
    })

    it("is reached by port numbers, because Kubernetes before 1.32 cannot name a sidecar's ports", () => {
      const ports = sidecar.ports.map(({ containerPort }) => containerPort)
      const named = parseAllDocuments(readFileSync(join(FOLDER, file), 'utf8'))
        .map((document) => document.toJS() as Manifest)
        .filter(({ kind }) => kind === 'Service' || kind === 'NetworkPolicy')
        .flatMap(({ spec }) => [...(spec.ports ?? []), ...(spec.ingress ?? []).flatMap((one) => one.ports)])
        .map(({ targetPort, port }) => targetPort ?? port)
      assert.ok(named.length > 2)
      assert.deepEqual([...new Set(named)].sort(), ports)
    })

    it('starts a gateway whose probes pass, whose metrics need the token, and whose limits can be edited', async () => {
      const [config, secrets] = [join(dir, 'config'), join(dir, 'secrets')]
      mkdirSync(config)
      mkdirSync(secrets)
      mount(config, data)
      for (const name of Object.keys(data)) symlinkSync(join('..data', name), join(config, name))
      for (const name of ['admin_token', 'upstream_secret']) writeFileSync(join(secrets, name), SECRET)
      const mounted = sidecar.env.map(({ name, value }) => [name, value.replace(MOUNTED_SECRETS, secrets)])
      const gateway = run('gateway/main.ts', {
        ...Object.fromEntries(mounted),
        GATEWAY_CONFIG: join(config, 'gateway.json'),
        GATEWAY_LIMITS: join(config, 'limits.json'),
        GATEWAY_CLIENTS: join(config, 'clients.json'),
        GATEWAY_DATA_DIR: join(dir, 'data'),
        GATEWAY_AUDIT_FILE: join(dir, 'audit.ndjson'),
        GATEWAY_ADMIN_HOST: '127.0.0.1',
        GATEWAY_PORT: '0',
        GATEWAY_ADMIN_PORT: '0',
      })
      const { port, adminPort } = await gateway.line(({ msg }) => msg === 'listening')
      const admin = `http://127.0.0.1:${adminPort}`
      for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'] as const) {
        assert.equal((await call(admin + sidecar[probe].httpGet.path)).status, 200, probe)
      }
      assert.equal((await call(`http://127.0.0.1:${port}/`)).status, 401)
      assert.equal((await call(`${admin}/metrics`)).status, 401)

      mount(config, { ...data, 'limits.json': '{"limits":[]}' })
      const headers = { authorization: `Bearer ${SECRET}` }
      // The first reload is the read at the start.
      const reloaded = 'gateway_config_reloads_total{file="limits.json",result="success"} 2'
      await until(
        async () => (await call(`${admin}/metrics`, { headers })).body.includes(reloaded) || undefined,
      )
      assert.equal(await gateway.end('SIGTERM'), 0)
    })
  })
}

it('config/kubernetes/deployment-patch.yaml adds the container of sidecar.yaml, with the user of its pod', () => {
  const pod = (manifestsOf('sidecar.yaml').get('StatefulSet') as Manifest).spec.template.spec
  const patch = (manifestsOf('deployment-patch.yaml').get('Deployment') as Manifest).spec.template.spec
  const [{ securityContext, ...added }] = patch.initContainers
  const [{ securityContext: hardened, ...sidecar }] = pod.initContainers
  assert.deepEqual(added, sidecar)
  // The pod may be in a namespace that enforces the Pod Security Standard `restricted`.
  const ofPod = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } }
  assert.deepEqual(securityContext, { ...hardened, ...ofPod })
  assert.equal(patch.terminationGracePeriodSeconds, pod.terminationGracePeriodSeconds)
  assert.deepEqual(patch.containers[0].lifecycle, pod.containers[0].lifecycle)
})

for (const name of ['example', 'full']) {
  it(`config/kubernetes/${name}-rendered.yaml is up to date with the chart and its values`, () => {
    const text = readFileSync(join(FOLDER, `${name}-rendered.yaml`), 'utf8')
    const command = `helm template accounts chart -f ${name}-values.yaml --kube-version 1.33.0`
    const header = `# Made by \`${command}\` of files with the SHA-256 ${hashOfChart(`${name}-values.yaml`)}\n`
    assert.equal(text.slice(0, text.indexOf('\n') + 1), header)
    if (!has('helm')) return
    const { stdout, stderr } = runInFolder(command)
    assert.equal(header + stdout, text, stderr)
  })
}

it('the chart refuses a release name that Kubernetes would refuse for the Services or the pods', () => {
  const template = readFileSync(join(FOLDER, 'chart/templates/statefulset.yaml'), 'utf8')
  const pattern = /regexMatch "(.+)" \.Release\.Name/.exec(template)?.[1]
  assert.ok(pattern !== undefined)
  // Each pod has a label of the name, a hyphen and up to 10 characters more. A label has 63 at most.
  const names = ['a', 'accounts-2', 'a'.repeat(52), 'a'.repeat(53), '2-accounts', 'my.accounts']
  assert.deepEqual(
    names.filter((name) => new RegExp(pattern).test(name)),
    names.slice(0, 3),
  )
  if (!has('helm')) return
  const accepted = names.filter((name) => {
    const { status, stderr } = runInFolder(`helm template ${name} chart --kube-version 1.34.0`)
    if (status !== 0) assert.match(stderr, /A release name has at most 52 characters/)
    return status === 0
  })
  assert.deepEqual(accepted, names.slice(0, 3))
})

describe('the values of the chart', () => {
  const read = (file: string) => parse(readFileSync(join(FOLDER, file), 'utf8'))
  const [defaults, full] = [read('chart/values.yaml'), read('full-values.yaml')]
  const rendered = readFileSync(join(FOLDER, 'full-rendered.yaml'), 'utf8')

  it('are all in full-values.yaml, none with its default', () => {
    for (const [key, value] of Object.entries(defaults)) {
      assert.notDeepEqual(full[key], value, key)
      if (!GROUPS.has(key)) continue
      for (const [inner, one] of Object.entries(value as object))
        assert.notDeepEqual(full[key]?.[inner], one, inner)
    }
  })

  it('are refused by their schema if Kubernetes would refuse only some manifests', () => {
    const validate = new Ajv().compile(
      JSON.parse(readFileSync(join(FOLDER, 'chart/values.schema.json'), 'utf8')),
    )
    for (const values of [defaults, full]) assert.ok(validate(values), JSON.stringify(validate.errors))
    const [flag, env] = [{ scrape: true }, [{ name: 'PORT', value: 3000 }]]
    for (const [path, value] of Object.entries({
      annotations: flag,
      nodeSelector: flag,
      'podMonitor.labels': flag,
      'prometheusRule.labels': flag,
      'serviceAccount.annotations': flag,
      'service.env': env,
      'gateway.env': env,
      'storage.size': '10GB',
      'podMonitor.interval': '30 s',
      monitoringNamespace: 'Not_a name',
      'serviceAccount.name': 'Accounts',
      'gateway.secretName': 'accounts_gateway',
      'gateway.secretFiles': { GATEWAY_STORE_PASSWORD_FILE: 'store/password' },
    })) {
      const [group = '', key] = path.split('.')
      const wrong = key === undefined ? value : { ...full[group], [key]: value }
      assert.equal(validate({ ...full, [group]: wrong }), false, path)
    }
  })

  it('each have an effect', () => {
    const texts = (value: unknown): unknown[] =>
      typeof value === 'object' && value !== null ? Object.values(value).flatMap(texts) : [value]
    for (const text of texts(full)) {
      // A Boolean decides about manifests. Its text cannot be found in them.
      if (typeof text !== 'boolean') assert.ok(rendered.includes(String(text)), String(text))
    }
    const kinds = parseAllDocuments(rendered).map((document) => document.get('kind'))
    assert.ok(kinds.includes('PrometheusRule'))
    assert.ok(kinds.includes('ServiceAccount'))
    assert.match(rendered, /automountServiceAccountToken: true/)
  })

  it('give the targets of the PodMonitor the job label that the alerts use', () => {
    const monitor = parseAllDocuments(rendered).find((document) => document.get('kind') === 'PodMonitor')
    const [endpoint] = monitor?.toJS().spec.podMetricsEndpoints ?? []
    const rules = readFileSync(join(FOLDER, '../prometheus/countersign.rules.yml'), 'utf8')
    const [, job] = /up\{job="([^"]+)"\}/.exec(rules) ?? []
    assert.deepEqual(endpoint.relabelings, [{ targetLabel: 'job', replacement: job }])
  })

  it('make the error budget rules of countersign.rules.yml, with other windows, rates and budget', () => {
    const values = ({ objective, fast, slow }: Objective) => [
      ...[...fast, ...slow].flatMap(({ rate, long, short }) => [`> ${rate} `, `${long}`, `${short}`]),
      ...[`${Number((1 - objective / 100).toFixed(6))}`, `(${Number((100 - objective).toFixed(4))} %`],
      `${30 / (fast.at(-1)?.rate ?? 0)} days`,
    ]
    const now = values(full.prometheusRule)
    const replaced = new Map(values(defaults.prometheusRule).map((old, index) => [old, now[index]]))
    const text = readFileSync(join(FOLDER, '../prometheus/countersign.rules.yml'), 'utf8').replaceAll(
      /(?<=rate|\[)\d+[mhd]|> [\d.]+ (?=\*)|\b0\.001|\(0\.1 %|\d days/g,
      (old) => replaced.get(old) ?? old,
    )
    const groups = (parse(text).groups as Groups).flatMap(({ rules }) => rules)
    const wanted = groups.filter(({ record = '', alert = '' }) =>
      /^job:gateway_http_errors|ErrorBudget/.test(record + alert),
    )
    assert.equal(wanted.length, 9)
    const made = parseAllDocuments(rendered)
      .find((one) => one.get('kind') === 'PrometheusRule')
      ?.toJS()
    const byName = (rules: Groups[number]['rules']) =>
      Object.fromEntries(rules.map((rule) => [rule.record ?? rule.alert, rule]))
    assert.deepEqual(byName(made.spec.groups[0].rules), byName(wanted))
  })
})
