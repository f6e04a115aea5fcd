import type { App } from '../services.ts'

/**
 * Notes every route that is registered from now on, so that a known path with another method can be told from an
 * unknown path (RFC 9110 section 15.5.6: 405 with Allow).
 */
export function rememberRoutes(app: App): { allowedMethods: (target: string) => string[] } {
  const routes: { readonly pattern: RegExp; readonly methods: readonly string[] }[] = []
  app.addHook('onRoute', ({ url, method }) => {
    // Without wildcards, which are only the assets of the documentation.
    if (url.includes('*')) return
    const literal = url.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    routes.push({ pattern: new RegExp(`^${literal.replace(/:[^/]+/g, '[^/]+')}$`), methods: [method].flat() })
  })
  return {
    allowedMethods: (target) => {
      const path = target.replace(/\?.*$/s, '')
      const methods = routes.filter((route) => route.pattern.test(path)).flatMap((route) => route.methods)
      return [...new Set(methods)].sort()
    },
  }
}
