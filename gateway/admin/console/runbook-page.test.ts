import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { htmlOf, runbookPage } from './runbook-page.ts'

test('every chapter of the runbook is on the page, under its alert in lower case, with nothing of Markdown left', () => {
  const file = new URL('../../../docs/operate/runbook.md', import.meta.url)
  const alerts = [...readFileSync(file, 'utf8').matchAll(/^## (\w+)$/gm)].map(([, alert = '']) => alert)
  const page = runbookPage().toString()
  assert.ok(alerts.length > 30)
  for (const alert of alerts) assert.ok(page.includes(`<h2 id="${alert.toLowerCase()}">${alert}</h2>`), alert)
  for (const [, anchor = ''] of page.matchAll(/href="#([^"]+)"/g))
    assert.ok(page.includes(`id="${anchor}"`), anchor)
  const prose = page.replaceAll(/<(pre|code)>.*?<\/\1>/gs, '')
  assert.doesNotMatch(prose, /\*\*|`|\]\(|^#|^\||^[-*] /m)
})

test('what stands in the runbook cannot become markup', () => {
  const shown = htmlOf('# A <b>\n\n`<i>` & **<u>** [x](#a"b) [y](#c)\n\n```sh\necho "<s>" **x**\n```\n')
  assert.equal(
    shown,
    '<h1 id="a-&lt;b&gt;">A &lt;b&gt;</h1>\n<p><code>&lt;i&gt;</code> &amp; <strong>&lt;u&gt;</strong> x <a href="#c">y</a></p>\n<pre>echo &quot;&lt;s&gt;&quot; **x**\n</pre>\n',
  )
})
