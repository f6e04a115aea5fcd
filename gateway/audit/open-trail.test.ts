import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { buildSync } from 'esbuild'
import { openTrail } from './open-trail.ts'
import {
  endOf,
  type Line,
  linesOf,
  requestLine,
  temporaryDirectory,
  typesOf,
  unpaired,
} from './trail.test-support.ts'

const silent = { onFault: assert.fail, onRecord: () => {} }

/** Environment of processes that are killed or limited, without coverage: the runner cannot read half a report. */
const env = { ...process.env, NODE_V8_COVERAGE: '' }

/** Sources that the processes import, in one file, so each process takes a fifth of the time. */
const [BUNDLE] = buildSync({
  stdin: {
    contents: `
      export { openTrail } from './open-trail.ts'
      export { responseTo } from './audit-records.ts'
      export { endOf, requestLine } from './trail.test-support.ts'`,
    resolveDir: fileURLToPath(new URL('.', import.meta.url)),
  },
  ...({ bundle: true, platform: 'node', format: 'esm', write: false } as const),
}).outputFiles

/** A program for a process of its own, in which `openTrail`, `requestLine`, `responseTo` and `file` are there. */
function program(t: TestContext, file: string, body: string): string[] {
  const bundle = join(temporaryDirectory(t), 'bundle.mjs')
  fs.writeFileSync(bundle, BUNDLE?.text ?? '')
  const head = `
    import fs from 'node:fs'
    import { endOf, openTrail, requestLine, responseTo } from ${JSON.stringify(pathToFileURL(bundle).href)}
    const file = ${JSON.stringify(file)}
    const faults = []
    const options = { file, onFault: (error) => faults.push(error), onRecord: () => {} }
  `
  return ['--no-warnings', '--expose-gc', '--input-type=module', '--eval', head + body]
}

function start(
  t: TestContext,
  file: string,
  body: string,
): ChildProcess & { readonly stdout: NodeJS.ReadableStream } {
  const child = spawn(process.execPath, program(t, file, body), { stdio: ['pipe', 'pipe', 'inherit'], env })
  t.after(() => child.kill('SIGKILL'))
  return child as ChildProcess & { readonly stdout: NodeJS.ReadableStream }
}

test('a start recovers what the last run left and then writes AUDIT_START', (t) => {
  const file = join(temporaryDirectory(t), 'data', 'audit.ndjson')
  const first = openTrail({ file, version: '1', ...silent })
  first.append(requestLine('a'))
  first.close('as if killed')
  fs.truncateSync(file, fs.readFileSync(file).lastIndexOf('\n', -2) - 5)
  const second = openTrail({ file, version: '2', ...silent })
  second.close('end')
  const lines = linesOf(file)
  assert.deepEqual(typesOf(lines), ['AUDIT_START', 'AUDIT_START', 'AUDIT_STOP'])
  assert.ok(Number(lines[1]?.cutBytes) > 100)
  assert.deepEqual([lines[1]?.version, lines[1]?.locked, lines[1]?.recovered], ['2', true, 0])
})

test('a start after a crash is reported, but not the first start or one after a stop, with a seal or without', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  let crashes = 0
  const onCrash = () => crashes++
  const open = () => openTrail({ file, ...silent, onCrash })
  open().close('SIGTERM')
  fs.appendFileSync(file, '{"type":"AUDIT_SEAL","size":2}\n')
  open().close('as if killed')
  assert.equal(crashes, 0)
  fs.appendFileSync(file, '{"type":"AUDIT_SEAL","size":2}\nnote to self\n')
  open().close('as if killed')
  assert.equal(crashes, 0, 'others have written behind the end')
  fs.truncateSync(file, fs.readFileSync(file).lastIndexOf('\n', -2) + 1)
  open().close('SIGTERM')
  assert.equal(crashes, 1)
  open().close('SIGTERM')
  assert.equal(crashes, 1)
})

test('requests of a running gateway whose trail has a longer name are not taken for open ones', async (t) => {
  const file = join(temporaryDirectory(t), 'audit')
  const options = { onFault: assert.fail, onRecord: () => {} }
  const other = openTrail({ ...options, file: `${file}-2` })
  await endOf(other.append(requestLine('of the other')))
  openTrail({ ...options, file }).close('end')
  const [{ type, open, recovered } = assert.fail()] = linesOf(file)
  assert.deepEqual({ type, open, recovered }, { type: 'AUDIT_START', open: 0, recovered: 0 })
  other.close('end')
})

test('a second writer of a file is refused while the first lives, also under another name', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  const first = openTrail({ file, ...silent })
  fs.symlinkSync(file, join(directory, 'alias.ndjson'))
  assert.throws(
    () => openTrail({ file, ...silent }),
    /audit\.ndjson is being written by another process, which holds .*\.lock/,
  )
  assert.throws(
    () => openTrail({ file: join(directory, 'alias.ndjson'), ...silent }),
    /is being written by another process/,
  )
  first.close('end')
  openTrail({ file, ...silent }).close('end')
})

test('a second writer is refused too where the first made the file through a link', (t) => {
  const directory = temporaryDirectory(t)
  const [file, alias] = [join(directory, 'audit.ndjson'), join(directory, 'alias.ndjson')]
  fs.symlinkSync('audit.ndjson', alias)
  const first = openTrail({ file: alias, ...silent })
  for (const name of [file, alias])
    assert.throws(() => openTrail({ file: name, ...silent }), /is being written by another process/)
  first.close('end')
})

test('a second process is refused while the first lives, and admitted at once when it was killed', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  // Garbage collection of the trail must not release the lock.
  const body = "openTrail(options); globalThis.gc(); console.log('open'); process.stdin.resume()"
  const child = start(t, file, body)
  await once(child.stdout, 'data')
  const text = fs.readFileSync(file, 'utf8')
  assert.throws(() => openTrail({ file, ...silent }), /is being written by another process/)
  assert.equal(fs.readFileSync(file, 'utf8'), text)
  child.kill('SIGKILL')
  await once(child, 'exit')
  openTrail({ file, ...silent }).close('end')
  assert.equal(linesOf(file).length, 3)
})

test('a lock file that was removed is made and locked again, and a writer that came meanwhile is named', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const faults: string[] = []
  const trail = openTrail({ ...silent, file, onFault: ({ message }) => faults.push(message) })
  t.after(() => trail.close('end'))
  fs.rmSync(`${file}.lock`)
  trail.maintain()
  assert.throws(() => openTrail({ file, ...silent }), /is being written by another process/)
  assert.deepEqual(faults, [])
  fs.rmSync(`${file}.lock`)
  const other = openTrail({ file, ...silent })
  trail.maintain()
  assert.match(faults[0] ?? '', /is being written by another process/)
  other.close('end')
  trail.maintain()
  assert.equal(faults.length, 1)
  assert.throws(() => openTrail({ file, ...silent }), /is being written by another process/)
})

test('an attempt to lock twice in one process does not let another process in', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const trail = openTrail({ file, ...silent })
  assert.throws(() => openTrail({ file, ...silent }), /is being written by another process/)
  const body = 'try { openTrail(options) } catch (error) { console.log(error.message) }'
  const child = spawnSync(process.execPath, program(t, file, body))
  assert.match(String(child.stdout), /is being written by another process/)
  trail.close('end')
})

test('a start that fails releases its lock', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  fs.symlinkSync(join(file, 'nowhere'), file)
  assert.throws(() => openTrail({ file, ...silent }), /audit file .* cannot be used: E/)
  fs.rmSync(file)
  openTrail({ file, ...silent }).close('end')
})

test('where no lock can be taken, the trail runs without one and says `locked: false`', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  fs.mkdirSync(`${file}.lock`)
  openTrail({ file, ...silent }).close('end')
  assert.equal(linesOf(file)[0]?.locked, false)
})

test('the lock leaves an empty file that its owner alone can read, and nothing else', (t) => {
  const directory = temporaryDirectory(t)
  const trail = openTrail({ file: join(directory, 'audit.ndjson'), ...silent })
  assert.deepEqual(fs.readdirSync(directory), ['audit.ndjson', 'audit.ndjson.lock'])
  const { size, mode } = fs.statSync(join(directory, 'audit.ndjson.lock'))
  assert.deepEqual([size, mode & 0o777], [0, 0o600])
  trail.close('end')
})

test('a directory or a pipe in place of the file is an error that names it', (t) => {
  const directory = temporaryDirectory(t)
  assert.throws(() => openTrail({ file: directory, ...silent }), /audit file .* cannot be used: EISDIR/)
  const pipe = join(directory, 'pipe')
  spawnSync('mkfifo', [pipe])
  assert.throws(() => openTrail({ file: pipe, ...silent }), /audit file .*pipe cannot be used: ENXIO/)
  const reader = fs.openSync(pipe, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  assert.throws(() => openTrail({ file: pipe, ...silent }), /a pipe is no place for a trail/)
  fs.closeSync(reader)
})

test('a missing permission is an error that names the file', (t) => {
  const directory = temporaryDirectory(t)
  const file = join(directory, 'audit.ndjson')
  fs.writeFileSync(file, '', { mode: 0o400 })
  fs.chmodSync(directory, 0o555)
  // Root has every permission, so a test that runs as root changes its user.
  const body = `
    if (process.getuid?.() === 0) process.setuid?.(65534)
    try { openTrail(options) } catch (error) { console.log(error.message) }
  `
  const child = spawnSync(process.execPath, program(t, file, body))
  // Otherwise only root could remove what is in it.
  fs.chmodSync(directory, 0o700)
  assert.match(
    String(child.stdout),
    /^audit file .*audit\.ndjson cannot be used: EACCES/,
    String(child.stderr),
  )
})

test('a full device does not stop the start: the trail is not writable until a file works', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  fs.symlinkSync('/dev/full', file)
  const faults: string[] = []
  const trail = openTrail({ file, onRecord: () => {}, onFault: (error) => faults.push(error.message) })
  assert.equal(trail.writable, false)
  assert.match(String(trail.append(requestLine('a'))), /ENOSPC/)
  assert.match(faults[0] ?? '', /ENOSPC/)
  fs.rmSync(file)
  trail.reopen()
  assert.equal(trail.writable, true)
  assert.equal(await endOf(trail.append(requestLine('b'))), undefined)
  assert.deepEqual(typesOf(linesOf(file)), ['AUDIT_START', 'AUDIT_STOP', 'AUDIT_START', 'API_REQUEST'])
  trail.close('end')
})

/** Works until there is no room, ends what is open, rotates, and tells how it went; runs under a real limit. */
const FILL = `
  const trail = openTrail(options)
  const open = []
  let accepted = 0
  for (let isFull = false; !isFull; ) {
    // The lines of one turn are written together or not at all.
    const lines = ['a', 'b', 'c'].map((name) => requestLine(name + accepted))
    const responses = open.splice(0, Math.max(0, open.length - 8)).map((line) => responseTo(line, 200, 1))
    const ends = await Promise.all([...lines.map((line) => trail.append(line)), ...responses.map((line) => trail.settle(line))].map(endOf))
    isFull = ends.some((error) => error !== undefined)
    if (isFull) break
    accepted += lines.length
    open.push(...lines)
  }
  const isTorn = fs.readFileSync(file).at(-1) !== 10
  for (const line of open) await endOf(trail.settle(responseTo(line, 200, 1)))
  const wasWritable = trail.writable
  fs.renameSync(file, file + '.1')
  MAKE_ROOM
  trail.reopen()
  const report = { accepted, isTorn, wasWritable, isWritable: trail.writable, codes: [...new Set(faults.map((fault) => fault.code))] }
  trail.close('end')
  console.log(JSON.stringify(report))
`

test('a file at its size limit (EFBIG) has no torn line, and every response is written when there is room', (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const body = FILL.replace('MAKE_ROOM', '')
  // 16 blocks: 8 or 16 KiB, according to the shell. The limit is per file, so a rotation makes room.
  const child = spawnSync(
    'sh',
    ['-c', 'ulimit -f 16; exec "$0" "$@"', process.execPath, ...program(t, file, body)],
    { env },
  )
  const report = JSON.parse(String(child.stdout))
  assert.ok(report.accepted > 10, String(child.stderr))
  assert.deepEqual([report.isTorn, report.wasWritable, report.isWritable], [false, false, true])
  assert.deepEqual(report.codes, ['EFBIG'])
  assert.deepEqual(unpaired([...linesOf(`${file}.1`), ...linesOf(file)]), [])
})

test('a full disk (ENOSPC) leaves no torn line, and every response is written when there is room', (t) => {
  const directory = temporaryDirectory(t)
  const disk = join(directory, 'disk')
  fs.mkdirSync(disk)
  const copy = join(directory, 'copy')
  // The mount disappears with the process, so the results are copied out of it.
  const room = `fs.copyFileSync(file + '.1', ${JSON.stringify(copy)}); fs.rmSync(file + '.1')`
  const end = `fs.cpSync(file, ${JSON.stringify(copy)} + '.2')`
  const mount = 'mount -t tmpfs -o size=16k tmpfs "$0" && exec "$@"'
  const command = ['--user', '--map-root-user', '--mount', 'sh', '-c', mount, disk, process.execPath]
  const body = FILL.replace('MAKE_ROOM', room) + end
  const child = spawnSync('unshare', [...command, ...program(t, join(disk, 'audit.ndjson'), body)])
  if (child.error !== undefined || /unshare|mount/.test(String(child.stderr))) {
    t.skip(`a tmpfs cannot be mounted here, which may take root: ${child.error ?? child.stderr}`)
    return
  }
  const report = JSON.parse(String(child.stdout))
  assert.ok(report.accepted > 30, String(child.stderr))
  assert.deepEqual([report.isTorn, report.wasWritable], [false, false])
  assert.deepEqual(report.codes, ['ENOSPC'])
  // A single line may fit where several did not: then the trail is writable for a moment.
  const marks = typesOf(linesOf(copy)).filter((type) => !type.startsWith('API_'))
  assert.match(marks.join(' '), /^AUDIT_START( AUDIT_STOP AUDIT_START)*( AUDIT_STOP)?$/)
  assert.equal(report.isWritable, true)
  assert.deepEqual(unpaired([...linesOf(copy), ...linesOf(`${copy}.2`)]), [])
})

test('after five kills at any moment, every request has one response and no acknowledged one is missing', async (t) => {
  const file = join(temporaryDirectory(t), 'audit.ndjson')
  const acknowledged: string[] = []
  for (let run = 0; run < 5; run++) {
    const child = start(
      t,
      file,
      `
      const trail = openTrail(options)
      const open = []
      function acknowledge(id) {
        // A non-blocking pipe can be full.
        for (;;) try { return fs.writeSync(1, id + '\\n') } catch (error) { if (error.code !== 'EAGAIN') throw error }
      }
      for (let i = 0; ; i++) {
        const lines = ['a', 'b', 'c'].map((name) => ['${run}-' + i + name, requestLine('${run}-' + i + name)])
        await Promise.all(lines.map(async ([id, line]) => {
          if (await endOf(trail.append(line)) !== undefined) throw faults[0]
          acknowledge(id)
          open.push(line)
        }))
        // These may be written before the kill, or not.
        while (open.length > 20) trail.settle(responseTo(open.splice((i * 7) % 20, 1)[0], 200, i))
      }
      `,
    )
    const exited = once(child, 'exit')
    // The reader has emptied the pipe, so the kill comes during the work.
    let output = ''
    for await (const chunk of child.stdout) {
      output += String(chunk)
      if (output.length > 5000) child.kill('SIGKILL')
    }
    // The output closes before the lock is released.
    await exited
    acknowledged.push(...output.slice(0, output.lastIndexOf('\n')).split('\n'))
  }
  openTrail({ file, ...silent }).close('end')
  const lines = linesOf(file)
  const ids = new Set(lines.map((line) => line.requestId))
  assert.deepEqual(unpaired(lines), [])
  assert.deepEqual(
    acknowledged.filter((id) => !ids.has(id)),
    [],
  )
  assert.ok(acknowledged.length > 3000, String(acknowledged.length))
  assert.equal(lines.filter((line) => line.recovered === true).length >= 5 * 20, true)
  assert.equal(lines.filter((line) => line.type === 'AUDIT_START').length, 6)
})

test('standard output gets the records, is not recovered from, and stays open', (t) => {
  const body = `
    const trail = openTrail(options)
    await endOf(trail.append(requestLine('a')))
    trail.reopen()
    trail.close('end')
    fs.writeSync(1, '{"type":"AFTER"}\\n')
  `
  const child = spawnSync(process.execPath, program(t, '-', body), { cwd: temporaryDirectory(t) })
  const lines = String(child.stdout).trimEnd().split('\n')
  const types = typesOf(lines.map((line) => JSON.parse(line)))
  assert.deepEqual(types, ['AUDIT_START', 'API_REQUEST', 'AUDIT_STOP', 'AFTER'])
})

test('a file that is standard output is never cut, because others may write to it', (t) => {
  const file = join(temporaryDirectory(t), 'collected')
  const body =
    'const trail = openTrail(options); while (await endOf(trail.append(requestLine("r"))) === undefined);'
  const command = 'ulimit -f 16; exec "$0" "$@" >> "$OUT"'
  spawnSync('sh', ['-c', command, process.execPath, ...program(t, '-', body)], { env: { ...env, OUT: file } })
  assert.ok([8192, 16384].includes(fs.statSync(file).size), String(fs.statSync(file).size))
})

test('a full pipe on standard output makes the trail unwritable until the reader goes on, and loses no line', async (t) => {
  const body = `
    const trail = openTrail(options)
    // Only a non-blocking pipe reports that it is full.
    process.stdout._handle.setBlocking(false)
    let accepted = 0
    // More than a pipe or a socket takes atomically, so that a part is written.
    const together = () => Array.from({ length: 300 }, (_, i) => endOf(trail.append(requestLine('r' + (accepted + i)))))
    while ((await Promise.all(together())).every((error) => error === undefined)) accepted += 300
    trail.settle('{"type":"KEPT"}\\n')
    // Takes the shortest of several waits, because a busy machine delays others.
    const waits = Array.from({ length: 5 }, () => {
      const start = performance.now()
      trail.append(requestLine('refused'))
      return performance.now() - start
    })
    const waitedMs = Math.min(...waits)
    process.stdin.on('data', () => {
      if (!trail.recheck()) return
      trail.close(JSON.stringify({ accepted, waitedMs, code: faults[0].code }))
      process.exit(0)
    })
    fs.writeSync(2, 'full')
  `
  const child = spawn(process.execPath, program(t, '-', body), { stdio: ['pipe', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  child.stdin.on('error', () => {})
  assert.equal(String((await once(child.stderr, 'data'))[0]), 'full')
  let text = ''
  for await (const chunk of child.stdout) {
    text += String(chunk)
    child.stdin.write('there is room\n')
  }
  const lines: Line[] = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const end = JSON.parse(String(lines.at(-1)?.reason))
  assert.equal(end.code, 'EAGAIN')
  assert.ok(end.waitedMs < 25, 'only the first write waits')
  assert.ok(end.accepted > 10)
  const requests = lines.filter((line) => line.type === 'API_REQUEST')
  const recovered = lines.filter((line) => line.recovered === true)
  assert.ok(lines.some((line) => line.type === 'KEPT'))
  // Refused requests that reached the pipe are completed and have their responses.
  assert.ok(recovered.length > 0 && recovered.length < 300, String(recovered.length))
  assert.equal(requests.length, end.accepted + recovered.length)
})
