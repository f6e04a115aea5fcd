import type { ReloadResult } from '../admin/config-in-force.ts'
import { ADMIN_FLAGS, askAdmin } from './admin-client.ts'
import { type Command, CommandFault, EXIT } from './command.ts'
import { CONFIG_FLAGS, environmentOf } from './config-flags.ts'
import { complain, print } from './print.ts'

const WORDS: Readonly<Record<ReloadResult['result'], string>> = {
  success: 'in force',
  unchanged: 'in force already',
  failure: 'refused: what was in force stays so',
}

export const command: Command = {
  words: '',
  count: [0, 0],
  flags: { ...ADMIN_FLAGS, ...(CONFIG_FLAGS.config && { config: CONFIG_FLAGS.config }) },
  about: [
    'Has a running gateway read its files now, and says what came of it. Files are watched anyway: a saved edit is in force within a second. What this adds is the answer, for a script that must know.',
    'A file with a fault changes nothing; its faults are listed. Keys of gateway.json that need a restart are named: they stay as they are until the gateway is started again.',
  ],
  examples: [
    ['countersign reload', 'the gateway that the files and variables here are of'],
    ['countersign reload --admin http://127.0.0.1:9090 --token-file data/admin-token', 'one with a token'],
  ],
  fault: 'a file has a fault, or the gateway does not answer',
  async run({ flags }) {
    const answer = await askAdmin({ method: 'POST', path: '/reload', flags, env: environmentOf(flags) })
    const results = resultsOf(answer.status, answer.body)
    if (results === undefined) {
      throw new CommandFault(`${answer.url} responded ${answer.status}: ${answer.body.slice(0, 200)}`)
    }
    for (const reloaded of results) {
      print(`${reloaded.file}: ${resultWords(reloaded)}`)
      for (const fault of reloaded.faults) complain(fault)
    }
    return answer.status === 200 ? EXIT.good : EXIT.fault
  },
}

/** @param result that of a gateway of an earlier version does not say what needs a restart */
export function resultWords({
  result,
  needsRestart = [],
}: Pick<ReloadResult, 'result'> & Partial<ReloadResult>): string {
  return needsRestart.length === 0
    ? WORDS[result]
    : `in force, but after a restart: ${needsRestart.join(', ')}`
}

function resultsOf(status: number, body: string): ReloadResult[] | undefined {
  if (status !== 200 && status !== 422) return undefined
  try {
    return Object.values(JSON.parse(body) as Record<string, ReloadResult>)
  } catch {
    return undefined
  }
}
