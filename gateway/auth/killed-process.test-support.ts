import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'

const SAY = `
  import { writeSync } from 'node:fs'
  // A full pipe says EAGAIN when the reader is busy.
  const say = (text) => {
    for (;;) try { return writeSync(1, text + '\\n') } catch (error) { if (error.code !== 'EAGAIN') throw error }
  }
`

/** Kills a program that calls `say` without end. @returns what it has said, 200 texts or more */
export async function saidBeforeKill(t: TestContext, program: string): Promise<readonly string[]> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', SAY + program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  const said: string[] = []
  for await (const line of createInterface(child.stdout)) {
    said.push(line)
    if (said.length === 200) child.kill('SIGKILL')
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  assert.equal(child.signalCode, 'SIGKILL')
  assert.ok(said.length >= 200)
  return said
}
