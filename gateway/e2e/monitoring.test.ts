import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { NO_REDIS, type RedisServer, startRedis } from '../store/redis-server.test-support.ts'
import { FORMS } from '../terminal/operational-log.ts'
import { call } from './client.ts'
import { describeWithPrograms, skipWithout } from './other-programs.ts'
import { adaptedConfig, FILES, NO_PROMETHEUS, type RunningPrometheus, startPrometheus } from './prometheus.ts'
import { startGateway, type TestGateway, until } from './running-gateway.ts'
import { makeTlsSetup, type TlsSetup } from './secure.ts'
import { startUpstream, type TestUpstream } from './test-upstream.ts'

interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly annotations?: Readonly<Record<string, string>>
}

interface RuleTest {
  readonly alert_rule_test: readonly { readonly alertname: string; readonly exp_alerts: readonly unknown[] }[]
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly datasource?: { readonly uid: string }
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly fieldConfig: { readonly defaults: { readonly unit?: string } }
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[]
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TOKEN = 'a-token-of-the-admin-listener-for-tests'
const WITNESS_KEY = 'w.example/1+0c86045d+BAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB'

/** The installed shells that the commands must run in. */
const SHELLS = ['bash', 'zsh'].filter((shell) => spawnSync(shell, ['--version']).error === undefined)

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const rules = (parse(read('config/prometheus/countersign.rules.yml')).groups as { rules: Rule[] }[]).flatMap(
  (group) => group.rules,
)
const alerts = rules.flatMap(({ alert }) => alert ?? [])
const records = rules.flatMap(({ record }) => record ?? [])
const dashboard = JSON.parse(read('config/grafana/countersign.json'))
const panels = (dashboard.panels as Panel[]).filter(({ type }) => type !== 'row')
const dashboardQueries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
const runbook = read('docs/operate/runbook.md')

/** Each section of the runbook by its heading. The beginning is under ''. */
const sections = new Map(
  runbook
    .split(/^## /m)
    .map((text, index) => [index === 0 ? '' : (text.split('\n')[0] ?? ''), text] as const),
)

/** In a test run, PATH has an npx that starts the bundled program. A real npx costs 1.3 s of CPU. */
function pathWithNpx(dir: string): string {
  const { TEST_GATEWAY, PATH = '' } = process.env
  if (!TEST_GATEWAY) return PATH
  const program = `'${process.execPath}' '${join(dirname(TEST_GATEWAY), 'cli/countersign.js')}'`
  const script = `[ "$1 $2" = '-- countersign' ] || exit 127\nshift 2\nexec ${program} "$@"`
  writeFileSync(join(dir, 'npx'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return `${dir}:${PATH}`
}

function shellBlocks(text: string): string[] {
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map((match) => match[1] as string)
}

/** Vector selectors of a query, without their ranges. */
function selectorsOf(query: string): string[] {
  const bare = query.replaceAll(/#.*$/gm, '')
  return bare.match(/(?:\b\w+:gateway_\w+:\w+|\b(?:gateway|process|nodejs)_\w+|\bup\b)(?:\{[^}]*\})?/g) ?? []
}

describe('the files for Prometheus and Grafana', () => {
  it('promtool accepts the configuration and the rules', { skip: NO_PROMETHEUS }, () => {
    const dir = adaptedConfig('localhost:9090', join(ROOT, 'LICENSE'))
    const checked = spawnSync('promtool', ['check', 'config', join(dir, 'prometheus.yml')])
    assert.equal(checked.status, 0, `${checked.stdout}${checked.stderr}`)
  })

  it('alerts fire and stay silent as their tests say', { skip: NO_PROMETHEUS }, () => {
    // Fewer collections of garbage save a seventh of the CPU.
    const env = { ...process.env, GOGC: '400' }
    const tested = spawnSync('promtool', ['test', 'rules', join(FILES, 'countersign.test.yml')], { env })
    assert.equal(tested.status, 0, `${tested.stdout}${tested.stderr}`)
  })

  it('the command in operations.md sets another objective and window in all files', {
    skip: NO_PROMETHEUS,
  }, (t) => {
    const dir = temporaryDirectory(t)
    cpSync(join(ROOT, 'config'), join(dir, 'config'), { recursive: true })
    const [command = ''] = /^sed .*$/m.exec(read('docs/operate/operations.md')) ?? []
    const { status, stderr } = spawnSync('sh', ['-c', command], { cwd: dir, encoding: 'utf8' })
    assert.equal(status, 0, stderr)
    const file = join(dir, 'config/prometheus/countersign.rules.yml')
    const checked = spawnSync('promtool', ['check', 'rules', file])
    assert.equal(checked.status, 0, `${checked.stdout}${checked.stderr}`)
    for (const name of [file, join(dir, 'config/grafana/countersign.json')]) {
      const text = readFileSync(name, 'utf8')
      assert.match(text, /(?:rate|\[)7d\b/)
      assert.match(text, /\b0\.0005\b/)
      assert.doesNotMatch(text, /\b3d\b|\b0\.001\b|\b0\.0144\b/)
    }
  })

  it('each alert fires in one of those tests and stays silent in another', () => {
    const cases = (parse(read('config/prometheus/countersign.test.yml')).tests as RuleTest[]).flatMap(
      (test) => test.alert_rule_test,
    )
    for (const [what, fires] of [
      ['fires', true],
      ['stays silent', false],
    ] as const) {
      const tested = cases.filter(({ exp_alerts: expected }) => expected.length > 0 === fires)
      assert.deepEqual(
        [...new Set(tested.map(({ alertname }) => alertname))].sort(),
        [...alerts].sort(),
        what,
      )
    }
  })

  it('each alert has its chapter in the runbook, and each chapter has its alert', () => {
    assert.deepEqual(
      [...sections.keys()].filter((heading) => heading !== ''),
      alerts,
    )
    for (const { alert, annotations } of rules.filter((rule) => rule.alert !== undefined)) {
      assert.equal(annotations?.runbook_url, `docs/operate/runbook.md#${alert?.toLowerCase()}`)
      const section = sections.get(alert ?? '') ?? ''
      for (const part of ['Means', 'Look', 'Mend', 'Call']) {
        assert.match(section, new RegExp(`^\\*\\*${part}\\*\\*`, 'm'), `${part} of ${alert}`)
      }
      assert.ok(shellBlocks(section).length > 0, `commands of ${alert}`)
    }
  })

  it('every recording rule is used by another rule, the dashboard or the runbook', () => {
    const asked = new Set(
      [...rules.map(({ expr }) => expr), ...dashboardQueries, runbook].flatMap(selectorsOf),
    )
    const names = new Set([...asked].map((selector) => selector.replace(/\{.*/s, '')))
    assert.deepEqual(
      records.filter((record) => !names.has(record)),
      [],
    )
  })

  it('every metric that a query names is documented or recorded', () => {
    const documented = new Set(
      [...read('docs/reference/metrics.md').matchAll(/^- `(\w+_\w+)`/gm)].map((match) => match[1]),
    )
    const asked = shellBlocks(runbook).flatMap((block) => block.match(/^ask .*$/gm) ?? [])
    const named = [...rules.map(({ expr }) => expr), ...dashboardQueries, ...asked].flatMap(selectorsOf)
    const unknown = named
      .map((selector) => selector.replace(/\{.*/s, ''))
      .filter((name) => name !== 'up' && !records.includes(name))
      .filter((name) => !documented.has(name) && !documented.has(name.replace(/_(?:bucket|sum|count)$/, '')))
    assert.ok(named.length > 100)
    assert.deepEqual(unknown, [])
  })

  it('every panel of the dashboard has a description, a unit and the chosen data source', () => {
    assert.equal(dashboard.schemaVersion, 42)
    const ids = (dashboard.panels as Panel[]).map(({ id }) => id)
    assert.equal(new Set(ids).size, ids.length)
    for (const { title, description = '', datasource, fieldConfig, targets = [] } of panels) {
      assert.ok(description.length > 10 && fieldConfig.defaults.unit !== undefined, title)
      for (const { uid } of [datasource, ...targets.map((target) => target.datasource)].flatMap(
        (one) => one ?? [],
      )) {
        assert.equal(uid, '$' + '{datasource}', title)
      }
      assert.ok(datasource !== undefined && targets.length > 0, title)
    }
  })

  it('every query of the dashboard selects the chosen job and instances', () => {
    const started = (dashboard.annotations.list as { expr?: string }[]).flatMap(({ expr }) => expr ?? [])
    for (const query of [...dashboardQueries, ...started]) {
      const selectors = [...selectorsOf(query), ...(query.match(/\{[^}]*\}/g) ?? [])]
      assert.ok(selectors.length > 0, query)
      for (const selector of selectors) {
        assert.match(selector, /\{(?=.*\bjob="\$job")(?=.*\binstance=~"\$instance[|]?")/, query)
      }
    }
  })
})

const SDK = { title: 'the SDK of Grafana', programs: ['dashboard-reader'], isListed: false } as const

describeWithPrograms(SDK, (programs) => {
  it('accepts the dashboard, and finds each field that is changed or missing', () => {
    const faultsOf = (input: string) => spawnSync(programs['dashboard-reader'], { input }).stderr.toString()
    const text = JSON.stringify(dashboard)
    assert.equal(faultsOf(text), '')
    for (const [field, other] of [
      ['"schemaVersion":42', '"schemaVersion":"42"'],
      ['"wideLayout":true', '"wideLayouts":true'],
      ['"lineWidth":1', '"lineWidth":"1"'],
      ['"unit"', '"units"'],
      ['"showHeader":true,', ''],
      ['"editorMode"', '"editorModes"'],
      ['"type":"table"', '"type":"tables"'],
    ] as const) {
      assert.notEqual(faultsOf(text.replace(field, other)), '', field)
    }
  })
})

describe('a Prometheus that scrapes a gateway', { skip: NO_PROMETHEUS || NO_REDIS }, () => {
  let upstream: TestUpstream
  let redis: RedisServer
  let tls: TlsSetup
  let gateway: TestGateway
  let prometheus: RunningPrometheus
  let calling: NodeJS.Timeout
  const dir = mkdtempSync(join(tmpdir(), 'countersign-monitoring-'))
  const tokenFile = join(dir, 'token')

  before(async () => {
    writeFileSync(tokenFile, TOKEN)
    redis = await startRedis()
    tls = await makeTlsSetup()
    upstream = await startUpstream((req, res) => {
      res.statusCode = req.url === '/open/broken' ? 500 : 200
      res.end('done')
    })
    gateway = await startGateway({
      config: {
        upstream: upstream.url,
        upstreams: { default: { breaker: { failures: 0, failurePercent: 100 }, retry: { statuses: [503] } } },
        routes: [
          { path: '/open/*', auth: ['none'] },
          { path: '/private', auth: ['bearer'] },
          { path: '/shadowed', auth: ['bearer'], mode: 'shadow' },
        ],
        // No witness signs here, but the metrics are there.
        audit: {
          witnesses: { quorum: 1, members: [{ url: upstream.url, key: WITNESS_KEY }] },
          stamps: { url: upstream.url, authorityFile: tls.env.GATEWAY_TLS_CERT },
        },
        // The deadline is long, because other tests keep the machine busy.
        onStoreFailure: { deadlineMs: 5000 },
      },
      limits: [{ path: '/open/limited', limit: 1, window: '1h', purpose: 'tests' }],
      env: {
        ...tls.env,
        GATEWAY_AUDIT_SEALS: 'on',
        GATEWAY_STORE: `redis://127.0.0.1:${redis.port}`,
        GATEWAY_ADMIN_TOKEN_FILE: tokenFile,
      },
    })
    prometheus = await startPrometheus(adaptedConfig(new URL(gateway.adminUrl).host, tokenFile))
    const authorization = `Bearer ${await upstream.issuer.token({ sub: 'a-machine', client_id: 'a-machine' })}`
    const asks: [path: string, headers?: Readonly<Record<string, string>>][] = [
      ['/open/x'],
      ['/open/broken'],
      ['/open/limited'],
      ['/private'],
      ['/shadowed'],
      ['/private', { authorization }],
      ['/private', { authorization: 'Bearer x.y.z' }],
    ]
    calling = setInterval(() => {
      for (const [path, headers = {}] of asks) call(gateway.url + path, { headers }).catch(() => undefined)
    }, 1000)
  })
  after(async () => {
    clearInterval(calling)
    await prometheus?.end()
    await gateway?.end('SIGKILL')
    await redis?.stop()
    upstream?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  /** Waits until all queries have a number. Fails with the queries that have none. */
  const allHaveData = async (queries: readonly string[]) => {
    const left = new Set(queries)
    await until(async () => {
      // Waits for the next scrape.
      await new Promise((resolve) => setTimeout(resolve, 500))
      for (const query of left) {
        const samples = await prometheus.query(query)
        if (samples.some(({ value }) => !Number.isNaN(value))) left.delete(query)
      }
      return left.size === 0 ? true : undefined
    }, 100_000).catch(() => assert.deepEqual([...left], [], 'queries without data'))
  }

  it('gets data for every query of the dashboard, every recording rule and every alert', async () => {
    const shown = dashboardQueries.map((query) =>
      query
        .replaceAll('$job', 'countersign')
        .replaceAll('$instance', '.*')
        .replaceAll('$__rate_interval', '1m'),
    )
    assert.ok(shown.length > 50 && !shown.some((query) => query.includes('$')))
    const looked = rules.flatMap(({ expr }) => selectorsOf(expr))
    // A gateway with a shared store has no idempotency keys.
    const here = looked.filter((selector) => !selector.startsWith('gateway_idempotency_total'))
    await allHaveData([...shown, ...records, ...here])
  })

  it('gets a page of metrics in which promtool finds no fault', async () => {
    const { body } = await call(`${gateway.adminUrl}/metrics`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: body })
    assert.equal(status, 0, `${stdout}${stderr}`)
    assert.match(body, /^gateway_store_takes_total\{outcome="decided"\} [1-9]/m)
  })

  it('evaluates every rule without a fault, and no alert fires', async () => {
    const { groups } = (await prometheus.get('rules')) as {
      readonly groups: readonly {
        readonly rules: readonly { readonly name: string; readonly health: string; readonly state?: string }[]
      }[]
    }
    const evaluated = groups.flatMap((group) => group.rules)
    assert.equal(evaluated.length, rules.length)
    assert.deepEqual(
      evaluated.filter(({ health, state }) => health !== 'ok' || state === 'firing'),
      [],
    )
  })

  it('and its gateway let every command of the runbook succeed', async () => {
    const [settings = '', functions = ''] = shellBlocks(sections.get('') ?? '')
    const log = join(dir, 'log')
    writeFileSync(log, gateway.process.lines.map((line) => JSON.stringify(line)).join('\n'))
    const env: Record<string, string> = {
      ADMIN: gateway.adminUrl,
      TOKEN_FILE: tokenFile,
      PROMETHEUS: prometheus.url,
      GATEWAY: `https://127.0.0.1:${gateway.tlsPort}`,
      UPSTREAM: upstream.url,
      JWKS: `${upstream.url}/.well-known/jwks.json`,
      CLIENT_CA: tls.env.GATEWAY_TLS_CLIENT_CA ?? '',
      CRL: tls.env.GATEWAY_TLS_CLIENT_CRL ?? '',
      STORE: `127.0.0.1:${redis.port}`,
      DATA: join(gateway.dir, 'data'),
      TRAIL: gateway.auditFile,
      PID: `${gateway.process.child.pid}`,
    }
    assert.deepEqual(settings.match(/^[A-Z_]+(?==)/gm), Object.keys(env))
    const commands = [...sections].flatMap(([heading, text]) =>
      heading === ''
        ? []
        : shellBlocks(text)
            .flatMap((block) => block.trim().split('\n'))
            .map((command) => ({ heading, command })),
    )
    assert.ok(commands.length > 60)
    const different = [...new Set(commands.map(({ command }) => command))]
    const script = [
      functions,
      `log() { cat '${log}'; }`,
      ...different.map((command) => `echo '>>>>'\n${command}`),
      `echo '>>>>'\nPID=\n${/^PID=.*$/m.exec(settings)?.[0]}\necho "$PID"`,
    ]
    const PATH = pathWithNpx(dir)
    const runIn = async (shell: string) => {
      const all = { ...process.env, ...env, PATH } as typeof env
      const { status, stdout, stderr } = await runShell(shell, script.join('\n'), all)
      const outputs = stdout.split('>>>>\n').slice(1)
      const last = different[outputs.length - 1]
      assert.equal(outputs[different.length], `${gateway.process.child.pid}\n`, shell)
      assert.equal(status, 0, `${shell}\n${last}\n${outputs.at(-1)}\n${stderr}`)
      // `logged` may find nothing, because the log of a good day has no such line.
      const silent = different.filter((command, at) => outputs[at] === '' && !command.startsWith('logged '))
      assert.deepEqual(silent, [], `commands that say nothing in ${shell}\n${stderr}`)
    }
    await Promise.all(SHELLS.map(runIn))
  })
})

it('a command of the runbook ends when the store hangs', {
  skip: NO_REDIS,
  timeout: 60_000,
}, async () => {
  const redis = await startRedis()
  redis.signal('SIGSTOP')
  const [, functions = ''] = shellBlocks(sections.get('') ?? '')
  const env = { PATH: process.env.PATH ?? '', STORE: `127.0.0.1:${redis.port}` }
  const { status, stderr } = await runShell('bash', `${functions}\nstore ping`, env)
  await redis.stop()
  assert.equal(status, 124)
  assert.equal(stderr, `no end within 5 s: redis-cli -h 127.0.0.1 -p ${redis.port} ping\n`)
})

it('the runbook says what to do when the token is needed and its file is missing', {
  skip: skipWithout('curl'),
}, async (t) => {
  const [, functions = ''] = shellBlocks(sections.get('') ?? '')
  const server = createServer((_req, res) => void res.writeHead(401).end('a token is needed\n'))
  t.after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const env = { PATH: process.env.PATH ?? '', ADMIN: `http://127.0.0.1:${port}`, TOKEN_FILE: '/none' }
  for (const shell of SHELLS) {
    const { status, stdout, stderr } = await runShell(shell, `${functions}\nmetric gateway_ready`, env)
    assert.deepEqual([status, stdout], [1, ''])
    const [refused, advice, ...more] = stderr.trim().split('\n')
    assert.match(refused ?? '', /^curl: .* 401$/)
    assert.equal(advice, 'set TOKEN_FILE to the file of the admin token; to read /none, sudo -s')
    assert.deepEqual(more, [], shell)
  }
})

it('the shell of the runbook has all variables of the gateway, with whole paths of files', async (t) => {
  const [settings = ''] = shellBlocks(sections.get('') ?? '')
  const [loop = ''] = /^\[ -n "\$PID" \].*\ndone [^\n]*$/ms.exec(settings) ?? []
  const dir = mkdtempSync(join(tmpdir(), 'countersign shell '))
  writeFileSync(join(dir, 'clients.json'), '{}')
  const given = {
    GATEWAY_CLIENTS: 'clients.json',
    GATEWAY_CONFIG: `${dir}/clients.json`,
    GATEWAY_STORE: 'rediss://a:1,b:2',
    GATEWAY_EMPTY: '',
    GATEWAY_TEXT: '$(id) "a=b"',
    OTHER: 'x',
  }
  const gateway = spawn('cat', { cwd: dir, env: { PATH: process.env.PATH, ...given }, stdio: 'pipe' })
  t.after(() => {
    gateway.kill()
    rmSync(dir, { recursive: true })
  })
  gateway.stdin.write('.')
  await once(gateway.stdout, 'data')
  for (const shell of SHELLS) {
    const env = { PATH: process.env.PATH ?? '', PID: `${gateway.pid}` }
    const { status, stdout, stderr } = await runShell(
      shell,
      `${loop}\nenv | grep -E '^(GATEWAY_|OTHER)' | sort`,
      env,
    )
    assert.deepEqual([status, stderr], [0, ''], shell)
    const { GATEWAY_CLIENTS, GATEWAY_CONFIG, GATEWAY_STORE, GATEWAY_TEXT } = given
    const shown = { GATEWAY_CLIENTS: join(dir, GATEWAY_CLIENTS), GATEWAY_CONFIG, GATEWAY_STORE, GATEWAY_TEXT }
    assert.deepEqual(
      stdout.trim().split('\n'),
      Object.entries(shown).map((pair) => pair.join('=')),
      shell,
    )
    const none = await runShell(shell, loop, { ...env, PID: '' })
    assert.equal(none.status, 0, shell)
    assert.match(none.stderr, /^no gateway has DATA: export its GATEWAY_… first$/m, shell)
  }
})

it('the runbook finds the same log lines in each format, and shows their time', async () => {
  const patterns = [...runbook.matchAll(/^logged '(.*)'$/gm)].map(([, pattern = '']) => new RegExp(pattern))
  assert.ok(patterns.length > 20)
  const time = Date.UTC(2026, 10, 28, 3)
  const lines = [
    { level: 30, time, msg: 'started after a crash' },
    { level: 30, time, msg: 'check the TLS files' },
    { level: 40, time, code: 'upstream_timeout', route: '/a', cause: 'an error', msg: 'refused' },
    { level: 50, time, err: { type: 'Error', message: 'no', stack: 'Error: no' }, msg: 'it failed' },
    { level: 50, time, store: 'shared', cause: 'WRONGPASS', msg: 'the shared store is away' },
    { level: 60, time, faults: ['one fault', 'another'], msg: 'the end' },
  ].map((line) => JSON.stringify(line))
  const forms = Object.values(FORMS).map((form) => form({ 'service.name': 'countersign' }))
  const found = (pattern: RegExp, written: readonly string[]) => written.map((line) => pattern.test(line))
  for (const pattern of patterns)
    for (const form of forms)
      assert.deepEqual(found(pattern, lines.map(form)), found(pattern, lines), String(pattern))
  for (const line of lines)
    assert.ok(
      patterns.some((pattern) => pattern.test(line)),
      line,
    )
  if (spawnSync('jq', ['--version']).error !== undefined) return
  const [, command = ''] = /`(log \| jq [^`]*)`/.exec(runbook) ?? []
  const script = `log() { printf '%s\\n' 'not of the gateway' "$LINE"; }\n${command}`
  const env = {
    PATH: process.env.PATH ?? '',
    LINE: `2026-11-28T04:00:00+0100 host countersign[7]: ${lines.at(-1)}`,
  }
  const { stdout } = await runShell('bash', script, env)
  assert.equal(stdout.trim(), lines.at(-1)?.replace(String(time), '"2026-11-28T03:00:00Z"'))
})

it('the runbook gives files back to the user of the process, by number', async () => {
  const owners = [...runbook.matchAll(/chown -hR? (".*?\)")/g)].map(([, owner = '']) => owner)
  // Without -h, root would follow a link that the gateway's user has made.
  assert.ok(owners.length > 1 && owners.length === runbook.split('chown ').length - 1)
  const env = { PATH: process.env.PATH ?? '', PID: `${process.pid}` }
  for (const owner of owners) {
    const { stdout } = await runShell('bash', `echo ${owner}`, env)
    // GNU chown refuses a number with a colon and no group.
    assert.equal(stdout, `${process.geteuid?.()}:${process.getegid?.()}\n`, owner)
    const without = await runShell('bash', `echo ${owner}`, { ...env, PID: '' })
    // Without a process the owner is empty, not root, the owner of /proc.
    assert.equal(without.stdout, '\n', owner)
  }
})

it('the runbook lists a data directory that is a link, as with DynamicUser of systemd', async (t) => {
  const dir = temporaryDirectory(t)
  mkdirSync(join(dir, 'private'))
  symlinkSync('private', join(dir, 'data'))
  const TRAIL = join(dir, 'data/audit.ndjson')
  writeFileSync(TRAIL, '')
  const [, functions = ''] = shellBlocks(sections.get('') ?? '')
  const [listed = ''] = /^within \d+ ls -lR .*$/m.exec(runbook) ?? []
  const script = `${functions}\ndisk "$TRAIL"\n${listed}`
  const { stdout } = await runShell('bash', script, { PATH: process.env.PATH ?? '', TRAIL })
  assert.match(stdout, new RegExp(`^drwx.* ${dir}/data/\\.$`, 'm'))
  assert.match(stdout, /^-rw.* audit\.ndjson$/m)
})

it('each chapter of the runbook links to the setup of the shell before its first command', () => {
  const [before = ''] = (sections.get('') ?? '').split('```sh')
  assert.match(before, /^# Runbook$/m)
  for (const alert of alerts)
    assert.match(sections.get(alert)?.split('```sh')[0] ?? '', /\]\(#runbook\)/, alert)
})

it('every command of the runbook that runs another program has a time limit', () => {
  const asking =
    /^(?!.*\b(?:within \d+|curl -sS -m \d+|disk)\b).*\b(?:curl|promtool|redis-cli|npx|journalctl|openssl s_client|docker exec|kubectl exec|systemd-run|df|du|findmnt|ls|[a-z]+ .*\$TRAIL)\b.*$/gm
  const blocks = [...runbook.matchAll(/^```(?:sh|text)\n(.*?)^```$/gms)].map((match) => match[1] ?? '')
  const unbounded = blocks.flatMap((block) => block.replaceAll(/#.*$/gm, '').match(asking) ?? [])
  assert.deepEqual(unbounded, [])
})

async function runShell(shell: string, script: string, env: Readonly<Record<string, string>>) {
  const child = spawn(shell, ['-euc', script], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'exit')
  const [stdout, stderr, [status]] = await Promise.all([textOf(child.stdout), textOf(child.stderr), ended])
  return { status, stdout, stderr }
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  for await (const part of stream) text += String(part)
  return text
}
