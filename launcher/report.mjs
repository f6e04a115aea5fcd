import { existsSync, readFileSync } from 'node:fs'
import { basename, delimiter, join, relative, resolve } from 'node:path'
import { spec } from 'node:test/reporters'

/** Programs in Go. Where one is missing, its tests are left out silently. */
const GO_PROGRAMS = ['dashboard-reader', 'h2spec', 'sumdb-verifier', 'tessera-fsck']

/** The reporter of `npm test`: Node's `spec`, the number of finished files, and at the end the skipped tests and how to run them. */
export default async function* report(events) {
  const says = new spec()
  const began = Date.now()
  const skipped = new Map()
  let done = 0
  let all = 0
  let isWhole = false
  for await (const event of events) {
    const { type, data } = event
    says.write(event)
    yield says.read() ?? ''
    const isFile = data.nesting === 0 && data.file !== undefined && resolve(data.name ?? '') === data.file
    if (type === 'test:enqueue' && isFile) {
      all += filesIn(data.file)
      isWhole ||= isGroup(data.file)
    }
    if (type === 'test:complete' && isFile) {
      done += filesIn(data.file)
      yield `${done} of ${all} test files are done, after ${Math.round((Date.now() - began) / 1000)} s\n`
    }
    if (type === 'test:pass' && data.skip !== undefined) {
      const reason = data.skip === true ? 'without a reason' : data.skip
      skipped.set(reason, [...(skipped.get(reason) ?? []), `${relative('', data.file ?? '')}: ${data.name}`])
    }
  }
  says.end()
  for await (const text of says) yield text
  yield* skippedLines(skipped)
  if (isWhole) yield* leftOutLines()
}

function* skippedLines(skipped) {
  for (const [reason, tests] of skipped) {
    yield `Skipped: ${reason}\n`
    for (const test of tests) yield `  ${test}\n`
  }
  if (skipped.size > 0)
    yield 'Install what is named there and become root where a test needs root, or run .ci/run on Debian, which skips nothing.\n'
}

function* leftOutLines() {
  if (process.env.TEST_LEFT_OUT)
    yield `Left out: ${process.env.TEST_LEFT_OUT}. "npm test -- FILE" runs one of them, "npm run test:coverage" and .ci/run run all.\n`
  const folders = (process.env.PATH ?? '').split(delimiter)
  const missing = GO_PROGRAMS.filter(
    (program) => !folders.some((folder) => existsSync(join(folder, program))),
  )
  if (missing.length > 0)
    yield `Left out: tests with ${missing.join(', ')}. ".ci/go-programs FOLDER" builds them; add FOLDER to the path.\n`
}

/** The number of test files. A group imports one test file in each line, and its bundle has the same name. */
function filesIn(file) {
  if (!isGroup(file)) return 1
  const group = join(process.env.TEST_RUN_DIR, basename(file))
  return readFileSync(group, 'utf8').split('\n').length - 1
}

function isGroup(file) {
  return file.startsWith(process.env.TEST_RUN_DIR ?? '\0')
}
