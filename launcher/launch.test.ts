import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { forProfile } from '../gateway/runtime/startup/memory-profile.ts'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const MANIFEST = JSON.parse(readFileSync(join(HERE, '../package.json'), 'utf8'))
const PLATFORM = `${process.platform}-${process.arch}`
const PINNED = Object.keys(MANIFEST.optionalDependencies).find((name) => name.endsWith(PLATFORM))
const NOT_PINNED = { skip: PINNED === undefined && `no Node is pinned for ${PLATFORM}` }

describe('the launcher', () => {
  const root = mkdtempSync(join(tmpdir(), 'countersign launcher '))
  after(() => rmSync(root, { recursive: true, force: true }))

  /** Makes a project with the launcher alone that wants this version of Node. */
  function project(engine = '>=24.7'): string {
    const dir = join(mkdtempSync(join(root, 'a-')), 'project')
    mkdirSync(dir)
    for (const file of ['exec.mjs', 'find-node.mjs', 'launch.mjs', 'main.mjs', 'test.mjs']) {
      cpSync(join(HERE, file), join(dir, 'launcher', file))
    }
    const scripts = {
      start: 'exec node launcher/main.mjs child.mjs',
      both: 'node launcher/main.mjs child.mjs && echo next',
    }
    writeManifest(dir, engine, { scripts })
    return dir
  }

  function writeManifest(dir: string, version: string, more: object): void {
    const devEngines = { runtime: { name: 'node', version, onFail: 'ignore' } }
    writeFileSync(join(dir, 'package.json'), JSON.stringify({ devEngines, ...more }))
  }

  /** The pinned Node's package, with a program in place of Node that says that it was called. */
  function pin(dir: string, { version = '26.10.0', program = '#!/bin/sh\necho pinned "$@"\n' } = {}): void {
    const home = join(dir, 'node_modules', PINNED as string)
    mkdirSync(join(home, 'bin'), { recursive: true })
    writeFileSync(join(home, 'package.json'), JSON.stringify({ version }))
    writeFileSync(join(home, 'bin/node'), program)
    chmodSync(join(home, 'bin/node'), 0o755)
  }

  const ENV = { PATH: process.env.PATH, HOME: process.env.HOME }
  const launch = (dir: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    spawnSync(process.execPath, ['launcher/main.mjs', ...args], {
      cwd: dir,
      encoding: 'utf8',
      env: { ...ENV, ...env },
    })
  const PRINT_VERSION = ['--eval', 'console.log(process.version)']

  describe('finds a Node', () => {
    it('the pinned one, without a link to it, and passes on every argument', NOT_PINNED, () => {
      const dir = project()
      pin(dir)
      assert.equal(
        launch(dir, ['--min-semi-space-size=32', 'a b.ts', '']).stdout,
        'pinned --min-semi-space-size=32 a b.ts \n',
      )
    })

    it('and gives it less room for young objects in the small profile', NOT_PINNED, () => {
      const dir = project()
      pin(dir)
      const small = { GATEWAY_PROFILE: 'small' }
      const args = ['--min-semi-space-size=32', '--max-semi-space-size=32', 'a.ts']
      assert.equal(
        launch(dir, args, small).stdout,
        'pinned --max-semi-space-size=4 --heap-growing-percent=20 a.ts\n',
      )
      assert.equal(launch(dir, ['a.ts'], small).stdout, 'pinned a.ts\n')
    })

    it('and gives it the options that the gateway gives itself', NOT_PINNED, () => {
      const dir = project()
      pin(dir, { program: '#!/bin/sh\necho "$MALLOC_ARENA_MAX $@"\n' })
      for (const GATEWAY_PROFILE of ['fast', 'small'])
        for (const given of ['--max-semi-space-size=32', '--min_semi_space_size=32']) {
          const { options, env } = forProfile({ options: [given], env: { GATEWAY_PROFILE } })
          const expected = `${env.MALLOC_ARENA_MAX ?? ''} ${options.join(' ')} a.ts\n`
          assert.equal(launch(dir, [given, 'a.ts'], { GATEWAY_PROFILE }).stdout, expected)
        }
    })

    it('the pinned one that was installed further up', NOT_PINNED, () => {
      const dir = project()
      pin(dirname(dir))
      assert.equal(launch(dir, ['a.ts']).stdout, 'pinned a.ts\n')
    })

    it('but not a pinned one further up that is too old', NOT_PINNED, () => {
      const dir = project()
      pin(dirname(dir), { version: '20.20.2' })
      assert.equal(launch(dir, PRINT_VERSION).stdout, `${process.version}\n`)
    })

    it('the one of the system, when the pinned one was left out', () => {
      assert.equal(launch(project(), PRINT_VERSION).stdout, `${process.version}\n`)
    })

    it('the one of the system, when the pinned one was built for another C library', NOT_PINNED, () => {
      const dir = project()
      pin(dir, { program: '#!/lib/no-such-loader.so\n' })
      assert.equal(launch(dir, PRINT_VERSION).stdout, `${process.version}\n`)
    })

    it('or says in one sentence what to install', () => {
      const { status, stdout, stderr } = launch(project('>=99.1'), PRINT_VERSION)
      assert.deepEqual([status, stdout], [1, ''])
      assert.match(
        stderr,
        /^This needs Node 99\.1 or newer, and this machine runs v[\d.]+: .*npm ci.*nodejs\.org\.\n$/,
      )
    })

    it("or says in the gateway's package which npm package to install", NOT_PINNED, () => {
      const dir = project('>=99.1')
      writeManifest(dir, '>=99.1', { name: 'countersign' })
      assert.match(launch(dir, PRINT_VERSION).stderr, new RegExp(`: run "npm install ${PINNED}@99\\.1", or `))
    })

    it('or says which library of the system Node lacks, and how to install it', NOT_PINNED, () => {
      const dir = project()
      pin(dir, {
        program:
          '#!/bin/sh\necho "$0: error while loading shared libraries: libatomic.so.1: cannot open" >&2\nexit 127\n',
      })
      const { status, stderr } = launch(dir, ['a.ts'])
      assert.equal(status, 127)
      assert.match(
        stderr,
        /\nNode needs the library libatomic\.so\.1, which this machine does not have: .*apt-get install libatomic1.*\n$/,
      )
      pin(dir, { program: '#!/bin/sh\nexit 127\n' })
      assert.equal(launch(dir, ['a.ts']).stderr, '')
    })

    it('or says what to install on each platform', () => {
      const said = (platform: string, isMusl: boolean) => {
        const source = `import('./launcher/find-node.mjs').then((it) => console.log(it.whatToInstall('${platform}', ${isMusl})))`
        return spawnSync(process.execPath, ['--eval', source], { cwd: project('>=99'), encoding: 'utf8' })
          .stdout
      }
      assert.match(said('linux-x64', true), / npm has none for Alpine .* node:99-alpine\.\n$/)
      assert.match(said('win32-x64', false), / npm has none for win32-x64\. .*nodejs\.org\.\n$/)
      assert.match(said('darwin-x64', false), / run "npm ci" /)
    })

    it('by comparing versions number by number', () => {
      const [major, minor, patch] = process.versions.node.split('.').map(Number) as [number, number, number]
      const status = (engine: string) => launch(project(`>=${engine}`), PRINT_VERSION).status
      assert.equal(status(`${major}`), 0)
      assert.equal(status(`${major}.${minor}.${patch}`), 0)
      assert.equal(status(`${major}.${minor}.${patch + 1}`), 1)
      assert.equal(status(`${major}.${minor + 10}`), 1)
      assert.equal(status(`${major - 1}.${minor + 10}`), 0)
    })
  })

  describe('gives what it runs', () => {
    const SHOW = ['--eval', 'console.log(process.env.NODE_COMPILE_CACHE ?? "none", process.env.PATH)']

    it('a place to keep compiled code, but not where coverage is measured', () => {
      const dir = project()
      assert.match(launch(dir, SHOW).stdout, /^\S.*\/project\/node_modules\/\.cache\/compiled \S/)
      assert.match(launch(dir, SHOW, { NODE_COMPILE_CACHE: '/elsewhere' }).stdout, /^\/elsewhere /)
      writeFileSync(join(dir, 'a.test.mjs'), 'console.log(process.env.NODE_COMPILE_CACHE ?? "none")')
      assert.match(launch(dir, ['--test', 'a.test.mjs']).stdout, /project\/node_modules\/\.cache\/compiled/)
      assert.match(launch(dir, ['--test', '--experimental-test-coverage', 'a.test.mjs']).stdout, /none/)
    })

    it('a path in which `node` is the pinned one', NOT_PINNED, () => {
      const dir = project()
      pin(dir, { program: '#!/bin/sh\ncommand -v node\n' })
      assert.equal(launch(dir, []).stdout, `${join(dir, 'node_modules', PINNED as string, 'bin/node')}\n`)
    })
  })

  describe('passes on', () => {
    it('the exit code', () => {
      assert.equal(launch(project(), ['--eval', 'process.exit(7)']).status, 7)
    })

    it('the exit code where the shell has no `exec`, by a program of that name', () => {
      const { bin } = JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8'))
      const exit = ['node', 'launcher/main.mjs', '--eval', 'process.exit(7)']
      const { status } = spawnSync(process.execPath, [`launcher/${bin.exec}`, ...exit], { cwd: project() })
      assert.equal(status, 7)
    })

    it('the signal that ended it', () => {
      for (const signal of ['SIGTERM', 'SIGKILL', 'SIGHUP']) {
        assert.equal(launch(project(), ['--eval', `process.kill(process.pid, '${signal}')`]).signal, signal)
      }
    })

    it('a signal that comes as soon as there is a program', NOT_PINNED, () => {
      const dir = project()
      pin(dir, {
        program: '#!/bin/sh\ntrap "exit 5" TERM\nkill -TERM $PPID\nfor _ in $(seq 300); do sleep 0.1; done\n',
      })
      for (let i = 0; i < 10; i++) assert.equal(launch(dir, []).status, 5)
    })

    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      it(`${signal}, and waits until the program ends`, async () => {
        const { launcher, ended } = await start(
          'process.on("SIGNAL", () => setTimeout(() => process.exit(5), 50))',
          signal,
        )
        launcher.kill(signal)
        assert.deepEqual(await ended, [5, null])
      })
    }

    /** The launcher with a child that says when it is ready. */
    async function start(program: string, signal: string) {
      const dir = project()
      writeFileSync(
        join(dir, 'child.mjs'),
        `${program.replace('SIGNAL', signal)}; setInterval(() => {}, 1000); console.log('ready')`,
      )
      const launcher = spawn(process.execPath, ['launcher/main.mjs', 'child.mjs'], {
        cwd: dir,
        env: ENV,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      await once(launcher.stdout, 'data')
      return { launcher, ended: once(launcher, 'exit') }
    }
  })

  describe('under npm', {
    skip: process.platform !== 'linux' && 'needs /proc to tell the processes apart',
  }, () => {
    // The child ends by a signal or with the channel, and writes which it was.
    const CHILD = `
      import { appendFileSync } from 'node:fs'
      const end = (why) => { appendFileSync('end', why); process.exit(0) }
      process.on('SIGTERM', () => end('SIGTERM '))
      process.on('SIGINT', () => end('SIGINT '))
      process.on('disconnect', () => end('disconnect '))
      setInterval(() => {}, 1000)
      console.log('pid', process.pid)`

    /** Starts npm. Returns it, the processes below it down to the child, and how to wait for the child's end. */
    async function start(script: string) {
      return startNpm(project(), ['run', '--silent', script])
    }

    async function startNpm(dir: string, args: readonly string[]) {
      writeFileSync(join(dir, 'child.mjs'), CHILD)
      const npm = spawn('npm', args, {
        cwd: dir,
        // What a shell of npm writes does not matter.
        stdio: ['ignore', 'pipe', 'ignore'],
        env: { ...ENV, PATH: `${dirname(process.execPath)}:${process.env.PATH}` },
        detached: true,
      })
      const [text] = await once(npm.stdout, 'data')
      const child = Number(/pid (\d+)/.exec(String(text))?.[1])
      return { npm, chain: chainAbove(child, npm.pid as number), ended: outputClosed(npm), dir }
    }

    it('every process of a server can be killed, and none is left', () => killEach('start', 3))

    // npm runs two commands in a shell. A launcher below a shell does not notice the end of npm, so npm itself is not
    // killed here.
    it('every process below npm can be killed when a shell stands between', () => killEach('both', 4, 1))

    async function killEach(script: string, length: number, from = 0): Promise<void> {
      for (let index = from; index < length; index++) {
        const { chain, ended } = await start(script)
        assert.equal(chain.length, length)
        process.kill(chain[index] as number, 'SIGKILL')
        await ended
      }
    }

    it('SIGTERM to npx reaches the program, though npx does not wait for its end', async () => {
      const { npm, dir, ended } = await startNpm(project(), [
        'exec',
        '-c',
        // A shell stays between, as with `npx -- PROGRAM` where the shell is dash.
        'node launcher/main.mjs child.mjs; true',
      ])
      npm.kill('SIGTERM')
      await ended
      assert.match(readFileSync(join(dir, 'end'), 'utf8'), /^SIGTERM /)
    })

    it('SIGTERM to npm is enough, and npm waits for the end', async () => {
      const { npm, dir } = await start('start')
      npm.kill('SIGTERM')
      assert.deepEqual(await once(npm, 'exit'), [0, null])
      assert.match(readFileSync(join(dir, 'end'), 'utf8'), /^SIGTERM /)
    })

    /** Waits for the end of the pipe, which all these processes hold, so that it ends with the last of them. */
    async function outputClosed(npm: ChildProcess): Promise<void> {
      const timeout = AbortSignal.timeout(60_000)
      await once(npm.stdout as NonNullable<ChildProcess['stdout']>, 'close', { signal: timeout }).catch(
        () => {
          process.kill(-(npm.pid as number), 'SIGKILL')
          assert.fail('some process was left')
        },
      )
    }

    function chainAbove(pid: number, top: number): number[] {
      const chain = [pid]
      while (chain[0] !== top && chain.length < 10) chain.unshift(parentOf(chain[0] as number))
      return chain
    }

    function parentOf(pid: number): number {
      return Number(/^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
    }
  })
})

describe('package.json', () => {
  const scripts: [string, string][] = Object.entries(MANIFEST.scripts)

  it('runs every script by the launcher, and leaves no shell above the last command', () => {
    for (const [name, script] of scripts) {
      const commands = script.split(' && ')
      for (const command of commands)
        assert.match(command, /^(exec )?node launcher\/(build|main|test)\.mjs/, name)
      assert.match(commands.at(-1) as string, /^exec /, name)
    }
  })

  it('lets npm run on each Node that the launcher supports', () => {
    for (const file of ['package.json', 'gateway/package.json', 'backend/package.json']) {
      const { engines } = JSON.parse(readFileSync(join(HERE, '..', file), 'utf8'))
      assert.deepEqual(engines, { node: '>=18' }, file)
    }
  })

  it('pins the same Node for each platform of find-node.mjs', () => {
    const source = readFileSync(join(HERE, 'find-node.mjs'), 'utf8')
    const pinned = Object.keys(MANIFEST.optionalDependencies)
    assert.deepEqual([...source.matchAll(/: '(node-[^']+)'/g)].map(([, name]) => name).sort(), pinned.sort())
    assert.equal(new Set(Object.values(MANIFEST.optionalDependencies)).size, 1)
  })

  it('has every test that can run longer in `npm run test:long`', () => {
    const [, long] = /^const LONG = \[([^\]]+)\]$/m.exec(readFileSync(join(HERE, 'test.mjs'), 'utf8')) ?? []
    const listed = [...String(long).matchAll(/'([^']+)'/g)]
    const root = join(HERE, '..')
    const longer = readdirSync(join(root, 'gateway'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => `gateway/${name}`)
      .filter((path) => readFileSync(join(root, path), 'utf8').includes('/long-runs.ts'))
    assert.deepEqual(listed.map(([, path]) => path).sort(), longer.sort())
  })

  it('lets test files share a process only if they have no hooks outside a suite', () => {
    const source = readFileSync(join(HERE, 'test.mjs'), 'utf8')
    const [, together] = /^const TOGETHER = \{$([^}]+)^\}$/m.exec(source) ?? []
    const paths = [...String(together).matchAll(/'([^']+\/[^']+)'/g)].map(([, path]) => String(path))
    assert.ok(paths.length > 0)
    for (const path of paths) {
      const isFile = path.endsWith('.test.ts')
      const inFolder = isFile
        ? []
        : readdirSync(join(HERE, '..', path), { recursive: true, encoding: 'utf8' })
      const files = isFile ? [path] : inFolder.map((name) => `${path}/${name}`)
      for (const file of files.filter((name) => name.endsWith('.test.ts')))
        assert.doesNotMatch(
          readFileSync(join(HERE, '..', file), 'utf8'),
          /^(?:before|after)(?:Each)?\(/m,
          file,
        )
    }
  })

  it('lets `npm test` bundle all tests, and name them by their sources', () => {
    const dir = mkdtempSync(join(tmpdir(), 'countersign-test-'))
    cpSync(HERE, join(dir, 'launcher'), { recursive: true, filter: (path) => !path.endsWith('.test.ts') })
    const source = readFileSync(join(HERE, 'test.mjs'), 'utf8')
    const together = /^const TOGETHER = \{$[^}]+^\}$/m
    assert.match(source, together)
    writeFileSync(
      join(dir, 'launcher/test.mjs'),
      source.replace(together, "const TOGETHER = { both: ['gateway/two.test.ts', 'gateway/three.test.ts'] }"),
    )
    writeFileSync(join(dir, 'package.json'), JSON.stringify({ devEngines: { runtime: { version: '>=24' } } }))
    symlinkSync(join(HERE, '../node_modules'), join(dir, 'node_modules'))
    for (const folder of ['gateway', 'backend']) mkdirSync(join(dir, folder))
    for (const name of ['one', 'two', 'three']) {
      // The text is in two pieces, because otherwise the bundler would write the place of this test into it.
      const place = ['!import.meta', `url.endsWith('/gateway/${name}.test.ts') && 'elsewhere'`].join('.')
      writeFileSync(
        join(dir, `gateway/${name}.test.ts`),
        `import { it } from 'node:test'\nit('runs', { skip: ${place} }, () => {})\nit('waits', { skip: 'a' }, () => {})\n`,
      )
    }
    const { status, stdout } = spawnSync(process.execPath, ['launcher/test.mjs'], {
      cwd: dir,
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
    })
    rmSync(dir, { recursive: true, force: true })
    assert.equal(status, 0, stdout)
    assert.match(stdout, /^3 of 3 test files are done/m)
    assert.match(stdout, /^ℹ pass 3$/m)
    for (const name of ['one', 'two', 'three'])
      assert.ok(stdout.includes(`  gateway/${name}.test.ts: waits\n`), stdout)
  })

  it('lets `npm test -- FILE` run that file alone', () => {
    const dir = mkdtempSync(join(tmpdir(), 'countersign-test-'))
    cpSync(HERE, join(dir, 'launcher'), { recursive: true })
    const devEngines = { runtime: { version: '>=24' } }
    writeFileSync(join(dir, 'package.json'), JSON.stringify({ devEngines }))
    symlinkSync(join(HERE, '../node_modules'), join(dir, 'node_modules'))
    writeFileSync(join(dir, 'one.test.ts'), `import { it } from 'node:test'; it('runs', () => {})`)
    const { status, stdout } = spawnSync(process.execPath, ['launcher/test.mjs', 'one.test.ts'], {
      cwd: dir,
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
    })
    rmSync(dir, { recursive: true, force: true })
    assert.equal(status, 0, stdout)
    assert.match(stdout, /tests 1\n/)
    assert.doesNotMatch(stdout, /coverage/)
  })
})
