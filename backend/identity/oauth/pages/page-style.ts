import { createHash } from 'node:crypto'

/** The style of every page. Texts have a contrast of 7:1 or better. */
export const STYLE = `
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #eef1f5; color: #17202c; font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 27rem; margin: 0 auto; padding: 1.5rem 1.25rem 2rem; background: #fff; min-height: 100vh; }
.issuer { margin: 0 0 1.25rem; padding-bottom: .75rem; border-bottom: 1px solid #c9d1dc; font-weight: 600;
  color: #123a75; overflow-wrap: anywhere; }
h1 { margin: 0 0 .75rem; font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin: 1.25rem 0 .25rem; font-size: 1rem; }
p { margin: 0 0 .75rem; overflow-wrap: anywhere; }
ul { margin: 0 0 1rem; padding-left: 1.25rem; }
li { margin: .3rem 0; }
label { display: block; margin: 1rem 0 .25rem; font-weight: 600; }
input { width: 100%; padding: .65rem .75rem; border: 2px solid #59677b; border-radius: .375rem; background: #fff;
  color: inherit; font: inherit; }
input[aria-invalid] { border-color: #9b1c1c; }
button { display: block; width: 100%; min-height: 3rem; margin-top: 1rem; padding: .6rem 1rem;
  border: 2px solid #123a75; border-radius: .375rem; background: #123a75; color: #fff; font: inherit;
  font-weight: 600; cursor: pointer; }
button.quiet { background: #fff; color: #123a75; }
button:hover { background: #0c2850; color: #fff; }
a { color: #123a75; white-space: nowrap; }
:focus-visible { outline: 3px solid #b35c00; outline-offset: 2px; }
.problem { margin: 0 0 1rem; padding: .75rem 1rem; border-left: .375rem solid #9b1c1c; background: #fdf0f0; }
.problem p { margin: 0; }
.note { margin-top: 1rem; padding: .75rem 1rem; background: #eef1f5; border-radius: .375rem; font-size: .9375rem; }
@media (min-width: 32rem) {
  body { padding: 3rem 1rem; }
  main { min-height: 0; padding: 2rem; border: 1px solid #c9d1dc; border-radius: .5rem; }
}
@media (forced-colors: active) { button { border-color: ButtonText; } }
`

export const STYLE_SOURCE = `'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`
