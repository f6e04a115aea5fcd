import assert from 'node:assert/strict'

/** Where a browser has come to: a page, or the address at which an application takes over. */
export interface Landing {
  readonly status: number
  readonly url: URL
  readonly headers: Headers
  /** Empty when it is not a page of the service. */
  readonly page: string
}

interface Cookie {
  readonly name: string
  readonly value: string
  readonly path: string
}

/**
 * A browser without a screen, of one service: it keeps cookies by path (RFC 6265 section 5.1.4), follows redirects and
 * fills in forms. It stops where it would leave the service.
 */
export class FormBrowser {
  readonly #origin: string
  #cookies: readonly Cookie[] = []

  constructor(origin: string) {
    this.#origin = origin
  }

  async open(target: URL | string, init: RequestInit = {}): Promise<Landing> {
    let url = new URL(target, this.#origin)
    let request = init
    for (let hops = 0; hops < 10; hops++) {
      const headers = new Headers(request.headers)
      const cookie = this.#cookiesFor(url.pathname)
      if (cookie !== '') headers.set('cookie', cookie)
      const answer = await fetch(url, { ...request, headers, redirect: 'manual' })
      for (const line of answer.headers.getSetCookie()) this.#keep(line)
      const page = await answer.text()
      const location = answer.headers.get('location')
      if (location === null) return { status: answer.status, url, headers: answer.headers, page }
      url = new URL(location, url)
      if (url.origin !== this.#origin)
        return { status: answer.status, url, headers: answer.headers, page: '' }
      request = {}
    }
    throw new Error('redirected too often')
  }

  /** Sends the form of the page that has this button, with these fields beside the hidden ones. */
  press(landing: Landing, button: string, fields: Readonly<Record<string, string>> = {}): Promise<Landing> {
    const forms = landing.page.match(/<form[\s\S]*?<\/form>/g) ?? []
    const form = forms.find((one) => one.includes(`>${button}</button>`))
    assert.ok(form, `no button ${button} in ${landing.page}`)
    const hidden = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)]
    const body = new URLSearchParams(fields)
    for (const [, name = '', value = ''] of hidden) body.append(name, value)
    return this.open(/action="([^"]+)"/.exec(form)?.[1] ?? '', { method: 'POST', body })
  }

  #cookiesFor(path: string): string {
    return this.#cookies
      .filter((cookie) => path === cookie.path || path.startsWith(cookie.path.replace(/\/?$/, '/')))
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ')
  }

  #keep(line: string): void {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
    const path = /; *path=([^;]+)/i.exec(line)?.[1] ?? '/'
    this.#cookies = this.#cookies.filter((cookie) => cookie.name !== name || cookie.path !== path)
    if (!/expires=Thu, 01 Jan 1970/i.test(line)) this.#cookies = [...this.#cookies, { name, value, path }]
  }
}
