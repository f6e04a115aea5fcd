import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryDirectory } from '../storage/temporary-directory.test-support.ts'
import { countersign } from './program.test-support.ts'

/** How a test asks each shell what it offers after `$WORDS`. */
const ASKED = {
  bash: [
    '-c',
    `. "$SCRIPT"; COMP_WORDS=($WORDS "$CUR"); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _countersign; printf "%s\\n" "\${COMPREPLY[@]}"`,
  ],
  zsh: [
    '-fc',
    `compdef() {}; . $SCRIPT; words=(\${=WORDS} "$CUR"); CURRENT=$#words; _describe() { print -l -- \${\${(P)2}%%:*} | grep -e "^$CUR" }; _files() {}; _countersign`,
  ],
  fish: ['-c', 'source $SCRIPT; complete -C "$WORDS $CUR" | string replace -r "\\t.*" ""'],
} as const

for (const shell of ['bash', 'zsh', 'fish'] as const) {
  const skip = spawnSync(shell, ['--version']).error !== undefined && `needs ${shell}`
  test(`${shell} completes commands, the commands of a group, and flags`, { skip }, async (t) => {
    const offered = await askerOf(shell, t)
    assert.deepEqual(offered('countersign', 're'), ['reload', 'restart'])
    assert.deepEqual(offered('countersign', 'au'), ['audit'])
    assert.deepEqual(offered('countersign audit', 'p'), ['prove', 'pseudonym'])
    assert.deepEqual(offered('countersign explain', ''), ['limit', 'route', 'token'])
    assert.deepEqual(offered('countersign validate', '--s'), ['--store'])
    assert.deepEqual(offered('countersign explain route GET /x --json', '--c'), ['--clients', '--config'])
    assert.deepEqual(offered('countersign audit verify', '--allow'), ['--allow-unsealed'])
  })
}

test('a shell that it does not know is refused', async () => {
  const { status, stderr } = await countersign(['completion', 'tcsh'])
  assert.equal(status, 2)
  assert.match(stderr, /SHELL is bash, zsh or fish, not "tcsh"/)
})

async function askerOf(shell: keyof typeof ASKED, t: TestContext) {
  const dir = temporaryDirectory(t)
  const script = join(dir, 'script')
  const made = await countersign(['completion', shell])
  assert.equal(made.status, 0, made.stderr)
  writeFileSync(script, made.stdout)
  return (words: string, cur: string) => {
    const env = { PATH: process.env.PATH, HOME: dir, SCRIPT: script, WORDS: words, CUR: cur }
    const { stdout, stderr } = spawnSync(shell, ASKED[shell], { encoding: 'utf8', env })
    assert.equal(stderr, '')
    // Leaves out --help, which is offered wherever flags and commands are offered together.
    return stdout
      .split('\n')
      .filter((word) => word !== '' && word !== '--help')
      .sort()
  }
}
