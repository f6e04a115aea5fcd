import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { takeProcessLock } from './process-lock.ts'
import { temporaryDirectory } from './temporary-directory.test-support.ts'

const whenTaken = 'somebody else has it'
const taken = { message: whenTaken }

function lockFile(t: TestContext): string {
  return join(temporaryDirectory(t), 'lock')
}

/** Arguments of a Node that takes the lock and then runs `body`. */
function program(path: string, body: string): string[] {
  const module = JSON.stringify(new URL('./process-lock.ts', import.meta.url).href)
  const options = JSON.stringify({ path, whenTaken })
  return [
    '--no-warnings',
    '--expose-gc',
    '--input-type=module',
    '--eval',
    `const { takeProcessLock } = await import(${module})\nconst take = () => takeProcessLock(${options})\n${body}`,
  ]
}

const env = { ...process.env, NODE_V8_COVERAGE: '' }

test('a lock is held by one at a time and can be taken again after its release', (t) => {
  const path = lockFile(t)
  const lock = takeProcessLock({ path, whenTaken })
  assert.deepEqual([lock.held, lock.fault, lock.isRemoved], [true, undefined, false])
  assert.throws(() => takeProcessLock({ path, whenTaken }), taken)
  lock.release()
  lock.release()
  takeProcessLock({ path, whenTaken }).release()
})

test('a refused second attempt in one process does not let another process in', (t) => {
  const path = lockFile(t)
  const lock = takeProcessLock({ path, whenTaken })
  assert.throws(() => takeProcessLock({ path, whenTaken }), taken)
  const body = 'try { take(); console.log("taken") } catch (error) { console.log(error.message) }'
  const child = spawnSync(process.execPath, program(path, body), { env })
  assert.equal(String(child.stdout), `${whenTaken}\n`)
  lock.release()
})

test('a lock that nothing refers to is kept until its process is killed, and is free at once then', async (t) => {
  const path = lockFile(t)
  const body = 'take(); globalThis.gc(); console.log("taken"); process.stdin.resume()'
  const child = spawn(process.execPath, program(path, body), { stdio: ['pipe', 'pipe', 'inherit'], env })
  t.after(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  assert.throws(() => takeProcessLock({ path, whenTaken }), taken)
  child.kill('SIGKILL')
  await once(child, 'exit')
  takeProcessLock({ path, whenTaken }).release()
})

test('a lock leaves one empty file that its owner alone can read', (t) => {
  const path = lockFile(t)
  const lock = takeProcessLock({ path, whenTaken })
  assert.deepEqual(readdirSync(join(path, '..')), ['lock'])
  const { size, mode } = statSync(path)
  assert.deepEqual([size, mode & 0o777], [0, 0o600])
  lock.release()
})

test('when no lock can be had, the result says why and holds nothing', (t) => {
  const path = lockFile(t)
  mkdirSync(path)
  const lock = takeProcessLock({ path, whenTaken })
  assert.equal(lock.held, false)
  assert.ok(lock.fault instanceof Error)
  assert.deepEqual([lock.isRemoved, lock.renewed()], [false, lock])
  lock.release()
  rmdirSync(path)
  writeFileSync(
    path,
    'not what SQLite expects, and long enough to be read as a header, which has 100 bytes'.repeat(2),
  )
  assert.equal(takeProcessLock({ path, whenTaken }).held, false)
  assert.equal(takeProcessLock({ path: join(path, 'below', 'a', 'file'), whenTaken }).held, false)
})

test('a lock is renewed when its file was removed or replaced, and only then', (t) => {
  const path = lockFile(t)
  const lock = takeProcessLock({ path, whenTaken })
  assert.equal(lock.renewed(), lock)
  rmSync(path)
  assert.equal(lock.isRemoved, true)
  const renewed = lock.renewed()
  assert.notEqual(renewed, lock)
  assert.throws(() => takeProcessLock({ path, whenTaken }), taken)
  renewed.release()
})

test('a removed lock that another has taken meanwhile cannot be renewed until the other releases it', (t) => {
  const path = lockFile(t)
  const first = takeProcessLock({ path, whenTaken })
  rmSync(path)
  const second = takeProcessLock({ path, whenTaken })
  assert.throws(() => first.renewed(), taken)
  assert.equal(first.isRemoved, true)
  second.release()
  const renewed = first.renewed()
  assert.equal(renewed.isRemoved, false)
  renewed.release()
})
