import { Html, html } from '../../identity/oauth/pages/html.ts'
import type { Media, OpenApiDocument, Operation, Parameter, Schema } from './openapi.ts'

const SHOWN_VALUES = 6
const NOTHING = html``

/** An OpenAPI document as one page to read and to try. */
export function referencePage(document: OpenApiDocument): string {
  const { info, tags, paths, components } = document
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
  const groups = tags.map((tag) => ({
    ...tag,
    operations: operations.filter(({ operation }) => (operation.tags ?? []).includes(tag.name)),
  }))
  return html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${info.title}</title>
<link rel="icon" href="/docs/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/docs/reference.css">
<script src="/docs/reference.js" type="module"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header><img src="/docs/icon.svg" alt="" width="32" height="32"><h1>${info.title} <span>${info.version}</span></h1></header>
<nav aria-label="Operations">${groups.map(
    ({ name, operations: listed }) =>
      html`<h2>${name}</h2><ul>${listed.map(
        ({ method, path, operation }) =>
          html`<li><a href="#${operation.operationId}"><b>${method}</b> ${breakable(path)}</a></li>`,
      )}</ul>`,
  )}</nav>
<main id="content" tabindex="-1">
${paragraphs(info.description)}
<p>The same for programs: <a href="/openapi.json">openapi.json</a>, OpenAPI 3.1.</p>
${signIn}
${groups.map(
  ({ name, description, operations: listed }) => html`<h2 id="tag-${name}">${description}</h2>
${listed.map(operationSection)}`,
)}
<h2 id="schemas">Schemas</h2>
${Object.entries(components.schemas).map(
  ([name, schema]) =>
    html`<section class="card" id="schema-${name}"><h3>${name}</h3>${described(schema.description)}${fields(schema)}</section>`,
)}
</main>
</body>
</html>
`.text
}

const signIn = html`<form class="card" id="sign-in">
<h2>To try it</h2>
<p>What an operation asks for is sent from this page. The token stays in the page, and is forgotten with it.</p>
<label for="email">E-mail address</label><input id="email" type="email" autocomplete="username" required>
<label for="password">Password</label><input id="password" type="password" autocomplete="current-password" required>
<button type="submit">Get an access token</button>
<p role="status"></p>
<label for="token">Access token</label><input id="token" autocomplete="off" spellcheck="false">
</form>`

interface Listed {
  readonly path: string
  readonly method: string
  readonly operation: Operation
}

function operationSection({ path, method, operation }: Listed): Html {
  const { operationId, summary, description, parameters = [], requestBody, responses, security } = operation
  const [mediaType, body] = Object.entries(requestBody?.content ?? {})[0] ?? []
  return html`<section class="card" id="${operationId}">
<h3>${summary}</h3>
<p class="target"><b>${method}</b> <code>${breakable(path)}</code></p>
${described(description)}
<p>${needs(security)}</p>
${parameters.length === 0 ? NOTHING : html`<h4>Parameters</h4><dl>${parameters.map(parameterItem)}</dl>`}
${body?.schema === undefined ? NOTHING : html`<h4>Body <small>${mediaType}</small></h4>${described(body.schema.description)}${fields(body.schema)}`}
<details><summary>Responses of ${summary}</summary><dl>${Object.entries(responses).map(
    ([status, response]) =>
      html`<dt>${status}</dt><dd>${response.description}${Object.values(response.content ?? {}).map(({ schema }) => fields(schema ?? {}))}</dd>`,
  )}</dl></details>
${isSigned(security) ? NOTHING : tryForm({ path, method, operation }, body)}
</section>`
}

function tryForm({ path, method, operation }: Listed, body: Media | undefined): Html {
  const { operationId, summary, parameters = [] } = operation
  return html`<details><summary>Try: ${summary}</summary>
<form class="try" data-method="${method}" data-path="${path}">
${parameters.map(({ name, in: place, required, example, schema }) => {
  const id = `${operationId}-${name}`
  const value = required ? textOf(example ?? schema.examples?.[0]) : ''
  return html`<label for="${id}">${name}</label><input id="${id}" name="${name}" data-in="${place}" value="${value}"${required ? new Html(' required') : NOTHING}>`
})}
${body?.schema === undefined ? NOTHING : html`<label for="${operationId}-body">Body</label><textarea id="${operationId}-body" rows="6" spellcheck="false">${JSON.stringify(body.example ?? exampleOf(body.schema), null, 2)}</textarea>`}
<button type="submit">Send ${method} ${breakable(path)}</button>
<pre role="status"></pre>
</form></details>`
}

function parameterItem({ name, in: place, required, description, schema }: Parameter): Html {
  return html`<dt><code>${name}</code> <small>in the ${place}, ${facts(schema, required === true)}</small></dt><dd>${description ?? ''}</dd>`
}

/** The fields of an object or of the items of a list, with those inside them; nothing for a value without fields. */
function fields(schema: Schema): Html {
  const { $ref, properties, required = [], items } = schema
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf('/') + 1)
    return html` <a href="#schema-${name}">${name}</a>`
  }
  if (items !== undefined) return fields(items)
  if (properties === undefined) return NOTHING
  return html`<dl>${Object.entries(properties).map(
    ([name, field]) =>
      html`<dt><code>${name}</code> <small>${facts(field, required.includes(name))}</small></dt><dd>${field.description ?? ''}${fields(field)}</dd>`,
  )}</dl>`
}

/** Type and bounds in words. */
function facts(schema: Schema, isRequired: boolean): string {
  const { type, format, enum: values, items, minLength, maxLength, minimum, maximum } = schema
  return [
    items === undefined ? (format ?? type) : `list of ${items.format ?? items.type ?? 'values'}`,
    isRequired ? 'required' : undefined,
    maxLength === undefined ? undefined : `${minLength ?? 0} to ${maxLength} characters`,
    maximum === undefined ? undefined : `${minimum ?? 0} to ${maximum}`,
    schema.default === undefined ? undefined : `default ${textOf(schema.default)}`,
    values === undefined ? undefined : oneOf(values.map(textOf)),
  ]
    .filter((fact) => fact !== undefined)
    .join(', ')
}

function oneOf(values: readonly string[]): string {
  const shown = values.slice(0, SHOWN_VALUES).join(', ')
  return values.length > SHOWN_VALUES ? `one of ${values.length}: ${shown} …` : `one of ${shown}`
}

/** The example of a value itself, else one that has what is required. */
function exampleOf(schema: Schema): unknown {
  const { examples, properties, required = [], items, type } = schema
  if (examples !== undefined) return examples[0]
  if (properties !== undefined) {
    const entries = Object.entries(properties)
    const shown = entries.filter(([name]) => required.includes(name))
    return Object.fromEntries(
      (shown.length > 0 ? shown : entries.slice(0, 1)).map(([name, field]) => [name, exampleOf(field)]),
    )
  }
  if (items !== undefined) return [exampleOf(items)]
  return type === 'string' ? '' : {}
}

function needs(security: Operation['security']): Html {
  if (security === undefined || security.length === 0) return html`Anyone may call it.`
  if (isSigned(security))
    return html`Needs a signed request, by Standard Webhooks 1.0: a page cannot send it.`
  const scopes = security.flatMap(({ bearer = [] }) => bearer)
  if (scopes.length === 0) return html`Needs an access token.`
  return html`Needs an access token with ${scopes.map((scope) => html`<code>${scope}</code> `)}`
}

function isSigned(security: Operation['security']): boolean {
  return security?.some(({ webhook }) => webhook !== undefined) === true
}

function described(text: string | undefined): Html {
  return text === undefined ? NOTHING : paragraphs(text)
}

/** Paragraphs are separated by an empty line; words in backticks are code. */
function paragraphs(text: string): Html {
  return html`${text
    .split('\n\n')
    .map(
      (paragraph) =>
        html`<p>${paragraph.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))}</p>`,
    )}`
}

/** A path that a narrow screen breaks before a slash. */
function breakable(path: string): Html {
  return new Html(html`${path}`.text.replaceAll('/', '<wbr>/'))
}

function textOf(value: unknown): string {
  return value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value)
}
