import { hash } from 'node:crypto'
import { inHtml, withoutSpaceAround } from '../../edge/syntax/characters.ts'
import type { Field } from '../../edge/syntax/field.ts'
import type { Refusal } from '../../refusals.ts'

const MAX_ACCEPT_CHARACTERS = 1024

/** True when Accept prefers HTML (RFC 9110 section 12.5.1), as in browsers. Clients that accept anything get JSON. */
export function prefersHtml(fields: readonly Field[]): boolean {
  let accept = ''
  for (const { lower, value } of fields) if (lower === 'accept') accept += `${value},`
  if (!accept.includes('text/html') || accept.length > MAX_ACCEPT_CHARACTERS) return false
  const weights = weightsOf(accept)
  const html = weights.get('text/html') ?? 0
  const json = weights.get('application/problem+json') ?? weights.get('application/json')
  if (json !== undefined) return html > json
  const anything = weights.get('application/*') ?? weights.get('*/*') ?? 0
  return html > 0 && html >= anything
}

function weightsOf(accept: string): Map<string, number> {
  const weights = new Map<string, number>()
  for (const range of accept.split(',')) {
    const [name = '', ...parameters] = range.split(';')
    const q = parameters.map((parameter) => /^[ \t]*q=(.*)$/i.exec(parameter)?.[1]).find(Boolean)
    const weight = q === undefined ? 1 : Number(q)
    weights.set(withoutSpaceAround(name).toLowerCase(), weight >= 0 && weight <= 1 ? weight : 0)
  }
  return weights
}

const STYLE = `
:root { color-scheme: light; }
body { margin: 0; background: #eef1f5; color: #17202c; font: 1rem/1.5 system-ui, sans-serif; }
* { box-sizing: border-box; }
main { max-width: 27rem; min-height: 100vh; margin: 0 auto; padding: 1.5rem 1.25rem; background: #fff; overflow-wrap: anywhere; }
h1 { margin: 0 0 .75rem; font-size: 1.5rem; line-height: 1.25; }
p { margin: 0 0 .75rem; }
.problem { padding: .75rem 1rem; border-left: .375rem solid #9b1c1c; background: #fdf0f0; }
.note { margin: 1rem 0 0; font-size: .9375rem; }
span { display: inline-block; }
@media (min-width: 32rem) {
  body { padding: 3rem 1rem; }
  main { min-height: 0; padding: 2rem; border: 1px solid #c9d1dc; border-radius: .5rem; }
}
`

/** No scripts, external resources, forms or framing. */
export const PAGE_POLICY =
  `default-src 'none'; style-src 'sha256-${hash('sha256', STYLE, 'base64')}'; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export function refusalPage(refusal: Refusal, title: string, requestId: string): Buffer {
  const { status, detail, code, headers } = refusal
  const retryAfter = headers.find((_, index) => index % 2 === 1 && headers[index - 1] === 'Retry-After')
  const wait = retryAfter === undefined ? '' : `\n<p>Go back and try again in ${seconds(retryAfter)}.</p>`
  return Buffer.from(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${inHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${inHtml(title)}</h1>
<p class="problem" role="alert">${inHtml(detail)}</p>${wait}
<p class="note">Status ${status}, code ${inHtml(code)}, request <span>${inHtml(requestId)}</span></p>
</main>
</body>
</html>
`)
}

function seconds(count: string): string {
  return count === '1' ? '1 second' : `${inHtml(count)} seconds`
}
