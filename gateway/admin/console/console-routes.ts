import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type AdminGuard, type AdminResponse, type AdminRoute, text } from '../admin-server.ts'
import { type ConsoleFeed, MAX_LISTENERS } from './console-feed.ts'
import { type RunbookSettings, runbookPage, runbookValues } from './runbook-page.ts'

/** A console with more unread bytes is dropped; it connects again and begins with the present. */
const MAX_UNREAD_BYTES = 256 * 1024
const RETRY_SECONDS = '5'

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')
const PAGE_HEADERS = [
  'Content-Security-Policy',
  POLICY,
  'Referrer-Policy',
  'no-referrer',
  'Cross-Origin-Opener-Policy',
  'same-origin',
  'Cross-Origin-Resource-Policy',
  'same-origin',
]

const HTML = 'text/html; charset=utf-8'
const SCRIPT = 'text/javascript; charset=utf-8'
const STYLE = 'text/css; charset=utf-8'
const OWN = ['main.js', 'runbook.js', 'stream.js', 'plots.js', 'panels.js', 'elements.js', 'words.js']

export function consoleRoutes(
  feed: ConsoleFeed,
  guard: AdminGuard,
  settings: () => RunbookSettings,
): AdminRoute[] {
  return [
    page('/', HTML, ownFile('index.html')),
    page('/runbook', HTML, runbookPage),
    {
      path: '/runbook/values',
      method: 'GET',
      access: 'operator',
      respond: ({ socket }) => {
        const body = JSON.stringify(runbookValues(settings(), socket))
        return { status: 200, contentType: 'application/json', body }
      },
    },
    page('/console/console.css', STYLE, ownFile('console.css')),
    page('/console/icon.svg', 'image/svg+xml', ownFile('icon.svg')),
    page('/console/uPlot.js', SCRIPT, fileAt(import.meta.resolve('uplot/dist/uPlot.iife.min.js'))),
    page('/console/uPlot.css', STYLE, fileAt(import.meta.resolve('uplot/dist/uPlot.min.css'))),
    ...OWN.map((name) => page(`/console/${name}`, SCRIPT, ownFile(name))),
    {
      path: '/events',
      method: 'GET',
      access: 'operator',
      respond: (req) => eventsFor(req, feed, guard),
    },
  ]
}

/** A page says nothing about this gateway, so it needs no token. Its file is read at the first request. */
function page(path: string, contentType: string, read: () => Buffer): AdminRoute {
  let body: Buffer | undefined
  return {
    path,
    method: 'GET',
    access: 'page',
    respond: () => {
      body ??= read()
      return { status: 200, contentType, body, headers: PAGE_HEADERS }
    },
  }
}

function ownFile(name: string): () => Buffer {
  return fileAt(new URL(`./page/${name}`, import.meta.url))
}

function fileAt(url: string | URL): () => Buffer {
  return () => readFileSync(new URL(url))
}

function eventsFor(req: IncomingMessage, feed: ConsoleFeed, guard: AdminGuard): AdminResponse {
  const contentType = 'text/event-stream; charset=utf-8'
  if (req.method === 'HEAD') return { status: 200, contentType, body: '' }
  if (feed.isFull) {
    const reason = `${MAX_LISTENERS} consoles are open, and no more are served\n`
    return text(503, reason, ['Retry-After', RETRY_SECONDS])
  }
  const isAllowed = () => guard.refuse(req, 'operator') === undefined
  return { status: 200, contentType, body: (res) => sendEvents(res, feed, isAllowed) }
}

/** @param isAllowed true while the request's token is in force */
function sendEvents(res: ServerResponse, feed: ConsoleFeed, isAllowed: () => boolean): void {
  const forget = feed.add({
    receive: (event) => {
      if (!isAllowed() || res.writableLength > MAX_UNREAD_BYTES) return false
      res.write(event)
      return true
    },
    end: () => res.destroy(),
  })
  res.on('close', forget)
}
