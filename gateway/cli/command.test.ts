import assert from 'node:assert/strict'
import { test } from 'node:test'
import { command as find } from './audit/find.ts'
import { type Command, parseCommandLine } from './command.ts'
import { countersign } from './program.test-support.ts'

const command: Command = {
  words: 'METHOD PATH',
  flags: { config: { value: 'FILE', about: 'a file' }, force: { about: 'really' } },
  about: [],
  examples: [],
  fault: 'never',
  run: () => 0,
}

const refused = (...args: string[]) => {
  let message = 'accepted'
  assert.throws(
    () => parseCommandLine(command, args),
    (error: Error) => {
      message = error.message
      return error.constructor.name === 'UsageFault'
    },
  )
  return message
}

test('words and flags are taken in any order, and flags of both kinds', () => {
  const given = parseCommandLine(command, ['--config', 'a.json', 'GET', '--force', '/x'])
  assert.deepEqual([given.words, { ...given.flags }], [['GET', '/x'], { config: 'a.json', force: '' }])
  assert.deepEqual(parseCommandLine(command, ['GET', '--config=b', '--', '--x']).words, ['GET', '--x'])
})

test('keys rotate says why the program of the backend cannot be started', async (t) => {
  const { execPath } = process
  t.after(() => {
    process.execPath = execPath
  })
  process.execPath = '/'
  const { status, stderr } = await countersign(['keys', 'rotate'])
  assert.equal(status, 1)
  assert.match(stderr, /rotate-keys\.[jt]s cannot be started: spawnSync \/ EACCES/)
})

test('what the command does not take is refused, with what was meant', () => {
  assert.equal(refused('GET', '/x', '--confg', 'a'), 'has no --confg; did you mean --config?')
  assert.match(refused('GET', '/x', '--zzzzzz'), /it has --config, --force, --help$/)
  assert.match(refused('GET', '/x', '-c'), /^has no -c/)
  assert.match(refused('GET', '/x', '--config'), /argument missing/)
  // A variable of the shell that is not set is empty. "audit find --user" would find nothing, "--config" the default.
  assert.equal(refused('GET', '/x', '--config', ''), 'needs a FILE after --config, and "" is none')
  assert.equal(refused('GET', '/x', '--config='), 'needs a FILE after --config, and "" is none')
  assert.match(refused('GET', '/x', '--force=1'), /does not take an argument/)
  assert.equal(refused('GET'), 'needs METHOD PATH')
  assert.equal(refused('GET', '/x', '/y'), 'takes METHOD PATH, and nothing like "/y"')
})

test('a status that no call of gRPC has is refused, not searched for', async () => {
  for (const number of ['17', '99', '-1', '014', 'x'])
    await assert.rejects(
      async () => find.run(parseCommandLine(find, [`--grpc-status=${number}`])),
      /^Error: --grpc-status must be a number from 0 to 16$/,
      number,
    )
})

test('what the system refuses is told in one sentence, without a stack', async () => {
  const { status, stderr } = await countersign(['certs', 'demo', '/dev/null/certs'])
  assert.deepEqual([status, stderr], [1, "ENOTDIR: not a directory, mkdir '/dev/null/certs'\n"])
})
