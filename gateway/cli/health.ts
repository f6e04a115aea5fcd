import { ADMIN_FLAGS, askAdmin } from './admin-client.ts'
import {
  CONFIG_FLAGS,
  type Command,
  complain,
  EXIT,
  environmentOf,
  JSON_FLAG,
  print,
  printJson,
  UsageFault,
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
    'It prints "ready", or "degraded: …" with the part that does not work; both have exit code 0. Otherwise it says why the gateway should get no traffic.',
    'The HEALTHCHECK of the image uses --live, because a container must not be killed while it drains or waits for a store.',
  ],
  examples: [
    ['countersign health', 'the gateway that the files and variables here configure'],
    ['countersign health --admin http://127.0.0.1:9090', 'any other gateway'],
    ['countersign health --live', 'whether the gateway runs, also while it should get no traffic'],
  ],
  fault: 'the gateway does not answer, or should get no traffic',
  async run({ flags }) {
    const env = environmentOf(flags)
    const path = flags.live !== undefined ? '/healthz' : '/readyz'
    const asked = askAdmin({ method: 'GET', path, flags, env, signed: false })
    const { status, body } = await asked.catch((fault: Error) => {
      if (flags.json === undefined || fault instanceof UsageFault) throw fault
      return { status: undefined, body: fault.message }
    })
    const said = body.trimEnd()
    const isGood = status === 200
    if (flags.json !== undefined) {
      const [state, reason] = isGood ? said.split(/: (.*)/) : ['not ready', said]
      printJson({ healthy: isGood, state, reason })
    } else if (isGood) print(said)
    else complain(`not ready: ${said}`)
    return isGood ? EXIT.good : EXIT.fault
  },
}
