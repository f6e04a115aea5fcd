import { existsSync, readFileSync } from 'node:fs'

const PACKED = new URL('./page/runbook.md', import.meta.url)
const SOURCE = new URL('../../../docs/operate/runbook.md', import.meta.url)
const ESCAPED: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }

/** The runbook as a page, whose chapters have the names of alerts in lower case as their ids. @throws what `readFileSync` throws */
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
  </head>
  <body>
    <main class="runbook"><p><a href="/">Console</a></p>
${htmlOf(markdown)}</main>
  </body>
</html>
`)
}

/** Renders the Markdown that the runbook uses: headings, paragraphs, blocks of code; within a line code, bold text and links. */
export function htmlOf(markdown: string): string {
  const parts = markdown.split(/^```\w*\n(.*?)^```$/ms)
  return parts.map((part, i) => (i % 2 === 1 ? `<pre>${escaped(part)}</pre>\n` : prose(part))).join('')
}

function prose(text: string): string {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim() !== '')
  return blocks
    .map((block) => {
      const [, marks, title = ''] = /^(#+) (.*)$/.exec(block.trim()) ?? []
      if (marks === undefined) return `<p>${inline(block.trim())}</p>\n`
      const level = marks.length
      return `<h${level} id="${escaped(title.toLowerCase().replaceAll(' ', '-'))}">${inline(title)}</h${level}>\n`
    })
    .join('')
}

function inline(text: string): string {
  const parts = text.split(/`([^`]+)`/)
  return parts.map((part, i) => (i % 2 === 1 ? `<code>${escaped(part)}</code>` : marked(part))).join('')
}

/** Other documents are not served: their links become plain text. */
function marked(text: string): string {
  return escaped(text)
    .replaceAll(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
    .replaceAll(/\[([^\]]+)\]\((#[\w-]+)\)/g, '<a href="$2">$1</a>')
    .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ESCAPED[character] as string)
}
