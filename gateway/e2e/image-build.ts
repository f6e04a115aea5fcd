import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, matchesGlob, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Where the Dockerfile's stages work. */
const WORKDIR = 'app'
const NODE_IMAGE: Readonly<Record<string, string>> = {
  'etc/os-release': 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\nVERSION_ID="13"\n',
  'opt/yarn-v1.22.22/bin/yarn': '',
  'usr/bin/sh': '',
  'usr/local/bin/docker-entrypoint.sh': '',
  'usr/local/bin/node': '',
  'usr/local/bin/npm': '',
  'usr/local/include/node/node.h': '',
  'usr/local/lib/node_modules/npm/package.json': '{}',
  'var/lib/dpkg/status': `Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 14.2.0-19+b1
Description: GNU Standard C++ Library v3
 Version: of the text

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
`,
}
const IGNORED = readFileSync(join(ROOT, '.dockerignore'), 'utf8')
  .split('\n')
  .filter((line) => line !== '')

export interface Stage {
  /** In place of `/`. */
  readonly root: string
  /** In place of `/app`. */
  readonly dir: string
  readonly env: Record<string, string>
  readonly labels: Record<string, string>
  command: readonly string[]
  healthCheck: readonly string[]
}

/**
 * Follows the Dockerfile without Docker: each stage is a directory below `into`, in which this copies and runs what
 * the file says. For `npm ci` it takes this repository's node_modules.
 *
 * @throws Error for an unknown instruction
 */
export function buildImages(into: string): Map<string, Stage> {
  const stages = new Map<string, Stage>()
  let stage: Stage | undefined
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8').replaceAll('\\\n', ' ')
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const [instruction = '', ...words] = line.split(/\s+/)
    if (instruction === 'FROM') {
      const [base = '', , name = ''] = words
      stage = begin(mkdtempSync(join(into, `${name}-`)), stages.get(base))
      if (base.startsWith('node:'))
        for (const [file, text] of Object.entries(NODE_IMAGE)) {
          mkdirSync(join(stage.root, dirname(file)), { recursive: true })
          writeFileSync(join(stage.root, file), text)
        }
      stages.set(name, stage)
    } else follow(stage as Stage, instruction, words, stages)
  }
  return stages
}

function begin(root: string, base: Stage | undefined): Stage {
  const dir = join(root, WORKDIR)
  mkdirSync(dir)
  if (base !== undefined) link(base.root, root)
  return { root, dir, env: { ...base?.env }, labels: { ...base?.labels }, command: [], healthCheck: [] }
}

function follow(
  stage: Stage,
  instruction: string,
  words: readonly string[],
  stages: ReadonlyMap<string, Stage>,
): void {
  const text = words.join(' ')
  switch (instruction) {
    case 'COPY':
      copy(stage, words, stages)
      return
    case 'RUN':
      for (const command of text.split(' && ')) runIn(stage, command)
      return
    case 'ENV':
      for (const word of words) stage.env[word.split('=')[0] as string] = word.slice(word.indexOf('=') + 1)
      return
    case 'CMD':
      stage.command = JSON.parse(text)
      return
    case 'HEALTHCHECK':
      stage.healthCheck = JSON.parse(text.slice(text.indexOf('CMD ') + 4))
      return
    case 'LABEL':
      for (const [, name = '', value = ''] of text.matchAll(/(\S+)="([^"]*)"/g)) stage.labels[name] = value
      return
    case 'WORKDIR':
    case 'USER':
    case 'VOLUME':
    case 'EXPOSE':
      return
    default:
      throw new Error(`unknown in the Dockerfile: ${instruction}`)
  }
}

function copy(stage: Stage, words: readonly string[], stages: ReadonlyMap<string, Stage>): void {
  const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length)
  const paths = words.filter((word) => !word.startsWith('--'))
  const target = placeIn(stage, paths.pop() as string)
  for (const path of paths) {
    const what = from === undefined ? join(ROOT, path) : placeIn(stages.get(from) as Stage, path)
    // Copies the content of a directory, or a file, into the target.
    const isDirectory = statSync(what).isDirectory()
    if (from !== undefined && isDirectory) link(what, target)
    else
      cpSync(what, isDirectory ? target : join(target, basename(path)), {
        recursive: true,
        filter: isInContext,
      })
  }
}

function placeIn({ root, dir }: Stage, path: string): string {
  return join(isAbsolute(path) ? root : dir, path)
}

/** As in Docker, the last pattern that matches the path or a folder around it decides. */
function isInContext(file: string): boolean {
  const steps = relative(ROOT, file).split('/')
  const paths = steps.map((_, i) => steps.slice(0, i + 1).join('/'))
  const last = IGNORED.findLast((line) => paths.some((path) => matchesGlob(path, line.replace(/^!/, ''))))
  return last === undefined || last.startsWith('!')
}

/** Copies a directory's content by links. */
function link(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  runProgram('cp', ['-al', `${from}/.`, to], from)
}

function runIn({ root, dir }: Stage, command: string): void {
  const workspace = /^npm ci -w (\w+) --omit=dev$/.exec(command)?.[1]
  if (workspace !== undefined) {
    copyModules(workspace, dir)
    // As npm does.
    symlinkSync('../gateway', join(dir, 'node_modules/countersign'))
    writeFileSync(join(dir, 'node_modules/.package-lock.json'), '{}')
  } else if (command === 'npm ci') symlinkSync(join(ROOT, 'node_modules'), join(dir, 'node_modules'))
  else if (/^(?:npm (?:run|sbom)|find|mkdir|rm) /.test(command)) {
    const here = command.replaceAll(/(?<= )\//g, `${root}/`).replaceAll('| node ', `| '${process.execPath}' `)
    runProgram('sh', ['-c', here], dir)
  } else if (!/^(?:npm cache|chown) /.test(command)) throw new Error(`unknown in the Dockerfile: ${command}`)
}

/** Copies what `npm ci -w <workspace> --omit=dev` would install. */
export function copyModules(workspace: string, dir: string): void {
  const listed = npm(['ls', '-w', workspace, '--omit=dev', '--all', '--parseable'], ROOT).split('\n')
  const paths = listed
    .map((path) => relative(ROOT, path))
    // The workspace itself is a link.
    .filter((path) => path.startsWith('node_modules/') && !basename(path).startsWith('countersign'))
  // Links work only within one file system.
  const { status } = spawnSync('cp', ['-al', '--parents', ...paths, dir], { cwd: ROOT })
  if (status !== 0) runProgram('cp', ['-a', '--parents', ...paths, dir], ROOT)
}

/** Returns npm's output. @throws Error when it fails */
export function npm(args: readonly string[], cwd: string): string {
  return runProgram('npm', args, cwd)
}

function runProgram(program: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stdout}${stderr}`)
  return stdout
}
