import assert from 'node:assert/strict'

export interface Landing {
  readonly status: number
  readonly url: URL
  readonly headers: Headers
  readonly page: string
}

/** A browser without a screen. It keeps cookies by path, fills in forms, and follows redirects within its origin. */
export class FormBrowser {
  readonly #origin: string
  readonly #jar = new Map<string, { readonly value: string; readonly path: string }>()

  constructor(origin: string) {
    this.#origin = origin
  }

  async open(url: URL | string, init: RequestInit = {}): Promise<Landing> {
    let next = new URL(url, this.#origin)
    let request = init
    for (let hops = 0; hops < 10; hops++) {
      const headers = new Headers(request.headers)
      const cookies = this.#cookiesFor(next.pathname)
      if (cookies !== '') headers.set('cookie', cookies)
      const response = await fetch(next, { ...request, headers, redirect: 'manual' })
      this.#keep(response.headers)
      const location = response.headers.get('location')
      if (location === null) {
        return { status: response.status, url: next, headers: response.headers, page: await response.text() }
      }
      await response.body?.cancel()
      next = new URL(location, next)
      if (next.origin !== this.#origin || init.redirect === 'manual')
        return { status: response.status, url: next, headers: response.headers, page: '' }
      request = {}
    }
    throw new Error('redirected too often')
  }

  /**
   * Sends the form whose action ends with `action`, with these fields and the hidden ones. `redirect: 'manual'` stops at the
   * first redirect.
   */
  submit(
    landing: Landing,
    action: string,
    fields: Record<string, string> = {},
    init: RequestInit = {},
  ): Promise<Landing> {
    const forms = landing.page.match(/<form[\s\S]*?<\/form>/g) ?? []
    const form = forms.find((one) => new RegExp(`action="[^"]*${action}"`).test(one))
    assert.ok(form, `no form ${action} in ${landing.page}`)
    const hidden = [...form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)]
    const body = new URLSearchParams([
      ...hidden.map(([, name = '', value = '']) => [name, value]),
      ...Object.entries(fields),
    ])
    return this.open(/action="([^"]+)"/.exec(form)?.[1] ?? '', { ...init, method: 'POST', body })
  }

  #cookiesFor(path: string): string {
    return [...this.#jar]
      .filter(([, cookie]) => path === cookie.path || path.startsWith(cookie.path.replace(/\/?$/, '/')))
      .map(([key, { value }]) => `${key.split(';')[0]}=${value}`)
      .join('; ')
  }

  #keep(headers: Headers): void {
    for (const line of headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split('; ')
      const [name = '', value = ''] = pair.split('=')
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/'
      const isGone = attributes.some((one) => /^expires=Thu, 01 Jan 1970/i.test(one))
      if (isGone) this.#jar.delete(`${name};${path}`)
      else this.#jar.set(`${name};${path}`, { value, path })
    }
  }
}
