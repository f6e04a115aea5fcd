import { STYLE, STYLE_SOURCE } from './page-style.ts'
import { SIGN_IN_FORM_PATH } from './sign-in-form.ts'

class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

type Value = string | Html | undefined | readonly Html[]

/** A template of markup, which escapes each string put into it. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(parts.map((part, index) => part + render(values[index])).join(''))
}

function render(value: Value): string {
  if (value === undefined) return ''
  if (value instanceof Html) return value.text
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
  return value.map(({ text }) => text).join('')
}

export interface Page {
  readonly html: string
  readonly headers: Readonly<Record<string, string>>
}

interface PageParts {
  readonly title: string
  readonly issuer: string
  readonly body: Html
  /** A target that `form-action` must allow, because browsers also check the redirect that follows a form. */
  readonly leadsTo?: string | undefined
}

function page({ title, issuer, body, leadsTo }: PageParts): Page {
  const document = html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} – ${issuer}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
<p class="issuer">${issuer}</p>
${body}
</main>
</body>
</html>
`
  const target = leadsTo === undefined ? '' : ` ${formTarget(leadsTo)}`
  return {
    html: document.text,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy':
        `default-src 'none'; style-src ${STYLE_SOURCE}; form-action 'self'${target}; ` +
        "base-uri 'none'; frame-ancestors 'none'",
      // "no-referrer" would also remove the Origin header, which we check.
      'referrer-policy': 'same-origin',
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    },
  }
}

/** The source expression of a redirect URI (CSP 3 section 2.3.1): its origin, or the scheme of an app. */
function formTarget(uri: string): string {
  const { protocol, host, hostname } = new URL(uri)
  // The grammar has no IPv6 addresses.
  return /^https?:$/.test(protocol) && !hostname.startsWith('[') ? `${protocol}//${host}` : protocol
}

export interface Asked {
  /** The id of the interaction, which the forms send back. */
  readonly id: string
  readonly issuer: string
  readonly application: string
  readonly redirectUri: string
}

export function signInPage(
  asked: Asked,
  { email = '', problem }: { readonly email?: string; readonly problem?: string | undefined } = {},
): Page {
  const invalid = problem === undefined ? undefined : html` aria-invalid="true" aria-describedby="problem"`
  const [first, second] = email === '' ? [html` autofocus`, undefined] : [undefined, html` autofocus`]
  return page({
    title: problem === undefined ? 'Sign in' : 'Error: sign in',
    issuer: asked.issuer,
    leadsTo: asked.redirectUri,
    body: html`<h1>Sign in</h1>
<p>to continue to <strong>${asked.application}</strong>. On the next page you decide what it may do.</p>
${problem === undefined ? undefined : html`<div class="problem" role="alert" id="problem"><p>${problem}</p></div>`}
<form method="post" action="${SIGN_IN_FORM_PATH}">
<input type="hidden" name="id" value="${asked.id}">
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" maxlength="254" required value="${email}"${invalid}${first}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required${invalid}${second}>
<button type="submit">Sign in</button>
</form>
${denyForm(asked.id, 'Cancel')}
<p class="note">Before you type your password, see that the address of this page begins with ${asked.issuer}. The application
does not learn your password.</p>`,
  })
}

export interface ConsentQuestion {
  readonly name: string
  readonly email: string
  /** What the application asks for, as phrases after "to". */
  readonly meanings: readonly string[]
  /** Any program can pretend to be this application (RFC 8252 section 8.6). */
  readonly isPublic: boolean
}

export function consentPage(asked: Asked, question: ConsentQuestion): Page {
  const returnsTo = new URL(asked.redirectUri)
  const target = returnsTo.host === '' ? `the app on this device (${returnsTo.protocol})` : returnsTo.host
  return page({
    title: `Allow access to ${asked.application}?`,
    issuer: asked.issuer,
    leadsTo: asked.redirectUri,
    body: html`<h1>Allow <strong>${asked.application}</strong> to act for you?</h1>
<p>You are signed in as ${question.name} (${question.email}). If that is not you, <a href="/oauth/logout">sign out</a>.</p>
<h2>It asks to</h2>
<ul>
${question.meanings.map((meaning) => html`<li>${meaning}</li>\n`)}</ul>
${question.isPublic ? html`<p class="note">Apps on a phone or computer cannot prove who they are. Allow this only if you opened the app yourself a moment ago.</p>` : undefined}
<p>Afterwards you are sent to ${target}.</p>
<form method="post" action="/oauth/interaction/consent">
<input type="hidden" name="id" value="${asked.id}">
<button type="submit">Allow</button>
</form>
${denyForm(asked.id, 'Deny')}`,
  })
}

function denyForm(id: string, label: string): Html {
  return html`<form method="post" action="/oauth/interaction/deny">
<input type="hidden" name="id" value="${id}">
<button type="submit" class="quiet">${label}</button>
</form>`
}

/** The page for a fault that cannot be sent to the application. */
export function errorPage(
  issuer: string,
  fault: { readonly error: string; readonly detail?: string | undefined },
): Page {
  return page({
    title: 'This did not work',
    issuer,
    body: html`<h1>This did not work</h1>
<div class="problem" role="alert"><p>${fault.detail ?? 'Something went wrong.'}</p></div>
<p>Go back to the application and start again. If it happens again, tell the makers of the application the code <strong>${fault.error}</strong>.</p>`,
  })
}

/** `form` is the provider's form, with its anti-forgery token. */
export function signOutPage(
  issuer: string,
  question: { readonly form: string; readonly leadsTo?: string | undefined },
): Page {
  return page({
    title: 'Sign out',
    issuer,
    leadsTo: question.leadsTo,
    body: html`<h1>Sign out of this browser?</h1>
<p>An application keeps its access if you allowed that.</p>
${new Html(question.form)}
<button type="submit" form="op.logoutForm" name="logout" value="yes">Sign out</button>
<button type="submit" form="op.logoutForm" class="quiet">Stay signed in</button>`,
  })
}

export function signedOutPage(issuer: string): Page {
  return page({
    title: 'Signed out',
    issuer,
    body: html`<h1>Done</h1>
<p>You can close this page.</p>`,
  })
}
