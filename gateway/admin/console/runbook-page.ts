import { existsSync, readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { resolve } from 'node:path'
import type { Settings } from '../../config/settings.ts'
import { reachable } from '../../edge/rules/network.ts'
import { inHtml } from '../../edge/syntax/characters.ts'
import { inShell } from '../../terminal/printable.ts'

const PACKED = new URL('./page/runbook.md', import.meta.url)
const SOURCE = new URL('../../../docs/operate/runbook.md', import.meta.url)
const BASE = 'file:///docs/operate/'

/** A chapter's id is its alert's name in lower case. @throws what `readFileSync` throws */
export function runbookPage(): Buffer {
  const markdown = readFileSync(existsSync(PACKED) ? PACKED : SOURCE, 'utf8')
  return Buffer.from(`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>Runbook · Countersign</title>
    <link rel="icon" href="/console/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/console/console.css">
    <script src="/console/runbook.js" type="module"></script>
  </head>
  <body>
    <nav class="bar"><a href="/">Console</a> <a href="#runbook">First set up the shell</a></nav>
    <main class="runbook"><p id="whose">Values below are examples. To see those of this gateway, sign in to the console in this tab.</p>
${htmlOf(markdown)}</main>
  </body>
</html>
`)
}

/** Settings that the runbook's commands name. */
export type RunbookSettings = Pick<
  Settings,
  | 'adminTokenFile'
  | 'audit'
  | 'configFile'
  | 'dataDir'
  | 'jwksUri'
  | 'limitsFile'
  | 'store'
  | 'tls'
  | 'upstream'
>

/** Values for the runbook's variables, each as one shell word. @param at the socket that asks */
export function runbookValues(settings: RunbookSettings, at: Pick<Socket, 'localAddress' | 'localPort'>) {
  const { adminTokenFile, audit, configFile, dataDir, jwksUri, limitsFile, store, tls, upstream } = settings
  const host = (at.localAddress ?? '').replace(/^::ffff:/, '')
  const data = resolve(dataDir)
  const trail = audit.file === '-' ? undefined : resolve(audit.file)
  const file = (path: string | undefined) => path && resolve(path)
  const [server] = store?.addresses ?? []
  const values = {
    ADMIN: `http://${reachable(host)}:${at.localPort}`,
    TOKEN_FILE: file(adminTokenFile),
    GATEWAY: tls && `https://localhost:${tls.port}`,
    UPSTREAM: upstream.find((url) => url.startsWith('http')),
    JWKS: jwksUri,
    CLIENT_CA: file(tls?.clientCaFile),
    CRL: file(tls?.clientCrlFile),
    STORE: server && `${server.host}:${server.port}`,
    DATA: data,
    TRAIL: trail,
    GATEWAY_CONFIG: file(configFile),
    GATEWAY_LIMITS: file(limitsFile),
    GATEWAY_DATA_DIR: data,
    GATEWAY_AUDIT_FILE: trail,
  }
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, inShell(value)]])),
  )
}

/** Renders the runbook's Markdown: headings, paragraphs, code blocks; code, bold text and links in a line. */
export function htmlOf(markdown: string): string {
  const parts = markdown.split(/^```\w*\n(.*?)^```$/ms)
  return parts.map((part, i) => (i % 2 === 1 ? `<pre>${inHtml(part)}</pre>\n` : prose(part))).join('')
}

function prose(text: string): string {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== '')
  return blocks
    .map((block) => {
      const [, marks, title = ''] = /^(#+) (.*)$/.exec(block.trim()) ?? []
      if (marks === undefined) return `<p>${inline(block.trim())}</p>\n`
      const level = marks.length
      return `<h${level} id="${inHtml(title.toLowerCase().replaceAll(' ', '-'))}">${inline(title)}</h${level}>\n`
    })
    .join('')
}

function inline(text: string): string {
  const parts = text.split(/`([^`]+)`/)
  return parts.map((part, i) => (i % 2 === 1 ? `<code>${inHtml(part)}</code>` : marked(part))).join('')
}

/** Links to documents that are not served become text with their path. */
function marked(text: string): string {
  return inHtml(text)
    .replaceAll(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
    .replaceAll(/\[([^\]]+)\]\((#[\w-]+)\)/g, '<a href="$2">$1</a>')
    .replaceAll(/\[([^\]]+)\]\(([^)#]*)[^)]*\)/g, (_link, words: string, target: string) => {
      const path = new URL(target, BASE).pathname.slice(1)
      if (target === '') return words
      return path.endsWith(words) ? path : `${words} (${path})`
    })
}
