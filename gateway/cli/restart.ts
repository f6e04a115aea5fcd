import { describeFault } from '../config/faults.ts'
import { loadSettings } from '../config/load-settings.ts'
import { askRestart } from '../runtime/restart/control-socket.ts'
import { CONFIG_FLAGS, type Command, CommandFault, EXIT, environmentOf, print } from './command.ts'

export const command: Command = {
  flags: { config: CONFIG_FLAGS.config },
  about: [
    'Replaces a running gateway by a new process, which reads the program and its files as they are now, without refusing a connection. The old process ends what is under way.',
    'Nothing changes when the new process cannot start. The gateway must run on this machine, as the same user, and not under npm or `countersign run`, except under systemd. The command waits two minutes for its report.',
  ],
  examples: [['countersign restart', 'the gateway that the files and variables here are of']],
  fault: 'the gateway goes on as it was, or cannot be reached',
  async run({ flags }) {
    const { value: settings, faults } = loadSettings(environmentOf(flags))
    if (settings === undefined) {
      throw new CommandFault(`not restarted: ${faults.map(describeFault).join('\n')}`)
    }
    const { restarted, text } = await askRestart(settings.dataDir)
    if (!restarted) throw new CommandFault(`not restarted: ${text}`)
    print(`restarted: ${text}`)
    return EXIT.good
  },
}
