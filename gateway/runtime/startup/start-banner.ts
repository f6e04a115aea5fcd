import { styleText } from 'node:util'
import { configFiles } from '../../config/environment.ts'
import type { Route } from '../../config/settings.ts'
import { reachable } from '../../edge/rules/network.ts'
import { inShell, printable } from '../../terminal/printable.ts'
import type { StartupConfiguration } from './read-configuration.ts'

const DEFAULT_FILES = configFiles({})

export function startBanner(
  startup: Pick<StartupConfiguration, 'settings' | 'limits' | 'version'>,
  at: { readonly port: number; readonly tlsPort: number | undefined; readonly adminPort: number },
): string {
  const { settings, limits, version } = startup
  const { host, adminHost, upstream, routes, configFile, limitsFile, audit } = settings
  const own =
    configFile === DEFAULT_FILES.configFile
      ? ''
      : ` --config ${inShell(configFile)} --limits ${inShell(limitsFile)}`
  const base = `http://${reachable(host)}:${at.port}`
  const rows: [string, string][] = [
    ['requests', `${base}  →  ${upstream.join(', ')}`],
    ...(at.tlsPort === undefined
      ? []
      : ([['', `https://${reachable(host)}:${at.tlsPort}`]] as [string, string][])),
    ['admin', `http://${reachable(adminHost)}:${at.adminPort}`],
    ['routes', `${routes.length} in ${configFile}`],
    ['limits', `${limits.value.rows.length} in ${limitsFile}, in force as soon as you save it`],
    ['audit', audit.file === '-' ? 'standard output' : audit.file],
  ]
  const tried = toTry(routes)
  const next = [
    `curl -i ${inShell(base + tried)}`,
    `npx -- countersign explain route GET ${inShell(tried)}${own}`,
  ]
  const bold = (text: string) => styleText('bold', text, { stream: process.stderr })
  return [
    '',
    `  ${bold(`Countersign ${version} serves.`)} Ctrl-C stops it.`,
    '',
    ...rows.map(([name, text]) => `  ${name.padEnd(10)}${printable(text)}`),
    '',
    ...next.map((command, index) => `  ${(index === 0 ? 'try' : '').padEnd(10)}${bold(printable(command))}`),
    '',
    '',
  ].join('\n')
}

/** Prefers a path that anyone may GET, then another with GET. */
function toTry(routes: readonly Route[]): string {
  const gets = routes.filter(({ methods }) => methods?.has('GET') !== false)
  const route = gets.find(({ auth }) => auth.has('none')) ?? gets[0] ?? routes[0]
  return route?.path.replace(/\*$/, '') ?? '/'
}
