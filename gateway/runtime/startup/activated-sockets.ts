import type { Environment } from '../../config/environment.ts'
import { reusesPort } from '../../config/rules/reuse-port.ts'
import { LISTENERS, type ListenerName, type ListeningSockets } from '../restart/sockets.ts'

const FIRST_FD = 3

/**
 * The sockets of systemd, by `FileDescriptorName=`. A single socket needs no name: it is `http`. @throws Error when a name is
 * unknown or comes twice, or when the gateway has no such listener, or opens its socket itself (`GATEWAY_REUSE_PORT`)
 */
export function socketsFromSystemd(
  env: Environment,
  { pid, hasTls }: { readonly pid: number; readonly hasTls: boolean },
): ListeningSockets {
  const count = env.LISTEN_PID === String(pid) ? Number(env.LISTEN_FDS) : 0
  const given = env.LISTEN_FDNAMES?.split(':') ?? []
  const names = count === 1 && !isListener(given[0]) ? ['http'] : given
  const sockets: Partial<Record<ListenerName, { readonly fd: number }>> = {}
  for (let at = 0; at < count; at++) {
    const name = names[at]
    if (!isListener(name) || sockets[name] !== undefined)
      throw new Error(
        `systemd passes a socket named "${name ?? ''}": FileDescriptorName= must be one of ${LISTENERS.join(', ')}, each once`,
      )
    if (reusesPort(env) && name !== 'admin')
      throw new Error(
        `systemd passes the socket ${name}, and GATEWAY_REUSE_PORT makes the gateway open it: stop the socket unit, or unset the variable and set ReusePort=yes in the unit`,
      )
    // Without a listener, clients of the socket would wait for ever.
    if (name === 'https' && !hasTls)
      throw new Error(
        'systemd passes the socket https, and the gateway has no HTTPS listener: set "tls" of gateway.json, or stop the socket unit',
      )
    sockets[name] = { fd: FIRST_FD + at }
  }
  return sockets
}

function isListener(name: string | undefined): name is ListenerName {
  return (LISTENERS as readonly (string | undefined)[]).includes(name)
}
