import type { Environment } from '../config/environment.ts'
import { describeFault } from '../config/faults.ts'
import { loadSettings } from '../config/load-settings.ts'
import { askRestart } from '../runtime/restart/control-socket.ts'
import { CONFIG_FLAGS, type Command, CommandFault, EXIT, environmentOf, print } from './command.ts'

export const command: Command = {
  flags: { config: CONFIG_FLAGS.config },
  about: [
    'Replaces a running gateway by a new process, without refusing a connection. The new process runs the installed program with the present files. The old process finishes open requests.',
    'If the new process cannot start, the old one goes on. The gateway must run on this machine, as the same user. A gateway started by npm or `countersign run` can be replaced only under systemd. The command waits up to three minutes for the result.',
  ],
  examples: [['countersign restart', 'the gateway of the files and variables here']],
  fault: 'the gateway was not replaced, or cannot be reached',
  async run({ flags }) {
    const { restarted, text } = await askRestart(dataDirOf(environmentOf(flags)))
    if (!restarted) throw new CommandFault(`not restarted: ${text}`)
    print(`restarted: ${text}`)
    return EXIT.good
  },
}

/** Prefers the variable: systemd's `ExecReload=` cannot read settings that name `LoadCredential=` secrets. */
function dataDirOf(env: Environment): string {
  if (env.GATEWAY_DATA_DIR) return env.GATEWAY_DATA_DIR
  const { value: settings, faults } = loadSettings(env)
  if (settings !== undefined) return settings.dataDir
  throw new CommandFault(`not restarted: ${faults.map(describeFault).join('\n')}`)
}
