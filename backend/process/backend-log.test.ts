import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { describe, it } from 'node:test'
import { stripVTControlCharacters } from 'node:util'

const NO_SCRIPT = spawnSync('script', ['--version']).error !== undefined && 'needs script (util-linux)'
const EVIL = '\\u001b]0;owned\\u0007\\u202e'
const PROGRAM = `
  const { backendLog } = await import(${JSON.stringify(new URL('backend-log.ts', import.meta.url).href)})
  backendLog().warn({ port: 3000, cause: 'two words', '${EVIL}': '${EVIL}' }, 'waits ${EVIL}')`
const ARGS = [
  ...process.execArgv.filter((option) => !option.startsWith('--test')),
  '--input-type=module',
  '--eval',
]

describe('the log of the backend', () => {
  it('is JSON where nobody reads it in a terminal', () => {
    const { stderr } = spawnSync(process.execPath, [...ARGS, PROGRAM], { encoding: 'utf8' })
    const { level, service, msg, port } = JSON.parse(stderr)
    assert.deepEqual([level, service, port], [40, 'backend', 3000])
    assert.match(msg, /^waits /)
  })

  it('names the fault of a statement, but none of its values', () => {
    const failing = `
      const { backendLog } = await import(${JSON.stringify(new URL('backend-log.ts', import.meta.url).href)})
      const { openPglite } = await import(${JSON.stringify(new URL('../database/pglite.ts', import.meta.url).href)})
      const database = await openPglite()
      await database.query('CREATE TABLE keys (private_key text, kid text NOT NULL)')
      await database.query('INSERT INTO keys VALUES ($1, $2)', ['the secret', null])
        .catch((err) => backendLog().error({ err }, 'failed'))
      await database.close()`
    const { stderr } = spawnSync(process.execPath, [...ARGS, failing], { encoding: 'utf8' })
    const { code, column, query } = JSON.parse(stderr).err
    assert.deepEqual([code, column, query], ['23502', 'kid', 'INSERT INTO keys VALUES ($1, $2)'])
    assert.doesNotMatch(stderr, /the secret/)
  })

  it('does not end the backend when the disk is full', {
    skip: existsSync('/dev/full') ? false : 'this system has no /dev/full',
  }, () => {
    const full = openSync('/dev/full', 'w')
    const ends = `${PROGRAM}; setTimeout(() => process.stdout.write('still there'))`
    const { stdout } = spawnSync(process.execPath, [...ARGS, ends], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', full],
    })
    closeSync(full)
    assert.equal(stdout, 'still there')
  })

  it('has lines for people in a terminal, and escapes control characters in them', {
    skip: NO_SCRIPT,
  }, () => {
    const quoted = [process.execPath, ...ARGS, PROGRAM].map((word) => `'${word.replaceAll("'", "'\\''")}'`)
    const { stdout } = spawnSync('script', ['-qefc', quoted.join(' '), '/dev/null'], {
      encoding: 'utf8',
      env: { ...process.env, TERM: 'xterm', SHELL: '/bin/sh' },
      input: '',
    })
    assert.match(
      stripVTControlCharacters(stdout),
      /^\d\d:\d\d:\d\d warn {2}waits \\u001b\]0;owned\\u0007\\u202e {2}service=backend {2}port=3000 {2}cause="two words" {2}\\u001b/,
    )
    for (const control of ['\u001b]', '\u0007', '\u202e']) assert.ok(!stdout.includes(control), stdout)
  })
})
