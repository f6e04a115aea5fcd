import assert from 'node:assert/strict'

/** Where a browser ended: on a page, or at the address of an application. */
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
 * A headless browser for one service: it keeps cookies by path (RFC 6265 section 5.1.4), follows redirects and
 * fills in forms. It stops when it would leave the service.
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
      const response = await fetch(url, { ...request, headers, redirect: 'manual' })
      for (const line of response.headers.getSetCookie()) this.#keep(line)
      const page = await response.text()
      const location = response.headers.get('location')
      if (location === null) return { status: response.status, url, headers: response.headers, page }
      url = new URL(location, url)
      if (url.origin !== this.#origin)
        return { status: response.status, url, headers: response.headers, page: '' }
      request = {}
    }
    throw new Error('redirected too often')
  }

  /** Submits the form with this button, with these fields and the hidden ones. */
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
