import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { Field } from '../../edge/syntax/field.ts'
import { refusal } from '../../refusals.ts'
import { PAGE_POLICY, prefersHtml, refusalPage } from './refusal-page.ts'

const accepts = (...values: string[]) => prefersHtml(values.map((value) => new Field('Accept', value)))

test('a browser that navigates prefers a page', () => {
  for (const accept of [
    'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
    'text/html, application/xhtml+xml, image/jxr, */*',
    'text/html',
    'text/html;q=0.5, application/json;q=0.4',
    'application/json;q=0.1, text/html; Q=0.2',
  ]) {
    assert.ok(accepts(accept), accept)
  }
  assert.ok(accepts('application/xml;q=0.9', 'text/html'), 'in two fields')
})

test('a program gets JSON, also one that takes HTML as well', () => {
  for (const accept of [
    '',
    '*/*',
    'text/*',
    'application/json',
    'application/problem+json, text/html',
    'text/html, application/json',
    'text/html;q=0.5, */*',
    'text/html;q=0, */*;q=0',
    'text/html;q=2',
    'text/html;q=x',
    'application/text/html',
    `text/html, ${'a/b,'.repeat(300)}`,
  ]) {
    assert.equal(accepts(accept), false, accept)
  }
  assert.equal(prefersHtml([]), false)
})

test('a page shows what the problem says, and runs nothing of it', () => {
  const detail = `At most 5 requests in 1m: <script>alert("'&'")</script>`
  const limited = refusal('limit_exceeded', { detail, headers: ['Retry-After', '34'] })
  const page = refusalPage(limited, 'Too Many Requests', 'a-1').toString()
  assert.match(page, /<h1>Too Many Requests<\/h1>/)
  assert.ok(page.includes('&lt;script&gt;alert(&quot;&#39;&amp;&#39;&quot;)&lt;/script&gt;'))
  assert.doesNotMatch(page, /<script/)
  assert.match(page, /try again in 34 seconds/)
  assert.match(page, /Status 429, code limit_exceeded, request <span>a-1<\/span>/)
  const style = /<style>([\s\S]*)<\/style>/.exec(page)?.[1] ?? ''
  assert.ok(PAGE_POLICY.includes(createHash('sha256').update(style).digest('base64')))
  assert.match(
    PAGE_POLICY,
    /^default-src 'none'; style-src 'sha256-[^ ']+'; base-uri 'none'; form-action 'none'/,
  )
})
