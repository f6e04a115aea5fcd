import { applyMemoryProfile } from '../runtime/startup/memory-profile.ts'
import type { Command } from './command.ts'
import { CONFIG_FLAGS, environmentOf } from './command.ts'

export const command: Command = {
  flags: CONFIG_FLAGS,
  about: [
    'Starts the gateway: requests on port 8080, metrics and health on port 9090 of this machine. It logs to standard error: text in a terminal, else JSON.',
    'Edits of files take effect when they are saved; the log names keys that need a restart. SIGTERM and Ctrl-C stop the gateway after open requests are done. SIGHUP opens the audit trail anew.',
  ],
  examples: [
    ['countersign run', 'with the files in config/'],
    [
      'GATEWAY_PORT=8081 GATEWAY_ADMIN_PORT=9091 GATEWAY_DATA_DIR=data/shop GATEWAY_AUDIT_FILE=data/shop/audit.ndjson countersign run --config shop.json --limits shop-limits.json',
      'a second gateway for another service, with its own ports, data and trail',
    ],
  ],
  fault: 'the configuration is faulty, or a port is in use',
  async run({ flags }) {
    Object.assign(process.env, environmentOf(flags))
    applyMemoryProfile()
    const { runGateway } = await import('../runtime/run-gateway.ts')
    await runGateway()
    return 0
  },
}
