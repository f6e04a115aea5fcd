import type { ReloadResult } from '../admin/config-in-force.ts'
import { ADMIN_FLAGS, askAdmin } from './admin-client.ts'
import { CONFIG_FLAGS, type Command, CommandFault, complain, EXIT, environmentOf, print } from './command.ts'

const WORDS: Readonly<Record<ReloadResult['result'], string>> = {
  success: 'in force',
  unchanged: 'in force already',
  failure: 'refused: the last good one stays in force',
}

export const command: Command = {
  flags: { ...ADMIN_FLAGS, config: CONFIG_FLAGS.config },
  about: [
    'Makes a running gateway read its files now, and prints the result. Without this command, too, a saved edit is in force within a second.',
    'A file with a fault changes nothing; its faults are listed. Keys of gateway.json that need a restart keep their old values, and are listed.',
  ],
  examples: [
    ['countersign reload', 'the gateway of the files and variables here'],
    [
      'countersign reload --admin http://127.0.0.1:9090 --token-file data/admin-token',
      'a gateway that demands a token',
    ],
  ],
  fault: 'a file has a fault, or the gateway does not answer',
  async run({ flags }) {
    const answer = await askAdmin({ method: 'POST', path: '/reload', flags, env: environmentOf(flags) })
    for (const reloaded of resultsOf(answer)) {
      print(`${reloaded.file}: ${resultWords(reloaded)}`)
      for (const fault of reloaded.faults) complain(fault)
    }
    return answer.status === 200 ? EXIT.good : EXIT.fault
  },
}

export function resultWords({ result, needsRestart }: Pick<ReloadResult, 'result' | 'needsRestart'>): string {
  return needsRestart.length === 0
    ? WORDS[result]
    : `in force, but after a restart: ${needsRestart.join(', ')}`
}

function resultsOf({ url, status, body }: Awaited<ReturnType<typeof askAdmin>>): ReloadResult[] {
  try {
    if (status === 200 || status === 422) return Object.values(JSON.parse(body))
  } catch {}
  throw new CommandFault(`${url} responded ${status}: ${body.slice(0, 200)}`)
}
