import { ADMIN_FLAGS, askAdmin } from './admin-client.ts'
import {
  CONFIG_FLAGS,
  type Command,
  CommandFault,
  complain,
  EXIT,
  environmentOf,
  JSON_FLAG,
  print,
  printJson,
} from './command.ts'

export const command: Command = {
  flags: {
    admin: ADMIN_FLAGS.admin,
    config: CONFIG_FLAGS.config,
    live: { about: 'asks only whether the gateway runs: /healthz, which says "alive"' },
    ...JSON_FLAG,
  },
  about: [
    'Asks a running gateway whether it should get traffic (/readyz). No token is needed.',
    'It prints "ready", or "degraded: …" with the part that does not work; both have exit code 0. Otherwise it says why; "state" of --json is then "not ready", "not alive" or "no answer".',
    "The image's HEALTHCHECK uses --live, because a container must not be killed while it drains or waits for a store.",
  ],
  examples: [
    ['countersign health', 'the gateway that the files and variables here configure'],
    ['countersign health --admin http://127.0.0.1:9090', 'any other gateway'],
    ['countersign health --live', 'whether the gateway runs'],
  ],
  fault: 'the gateway does not answer, or should get no traffic',
  async run({ flags }) {
    const env = environmentOf(flags)
    const [path, bad] = flags.live !== undefined ? ['/healthz', 'not alive'] : ['/readyz', 'not ready']
    const asked = askAdmin({ method: 'GET', path, flags, env, signed: false })
    const { status, body } = await asked.catch((fault: Error) => {
      if (flags.json === undefined || !(fault instanceof CommandFault)) throw fault
      return { status: undefined, body: fault.message }
    })
    const said = body.trimEnd()
    const isGood = status === 200
    if (flags.json !== undefined) {
      const fault = status === undefined ? 'no answer' : bad
      const [state, reason] = isGood ? said.split(/: (.*)/) : [fault, said]
      printJson({ healthy: isGood, state, reason })
    } else if (isGood) print(said)
    else complain(`${bad}: ${said}`)
    return isGood ? EXIT.good : EXIT.fault
  },
}
