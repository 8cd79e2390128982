/** The style sheet of the reference. It uses system fonts and colours, and loads nothing. */
export const STYLE = `:root {
  color-scheme: light dark;
  --text: #1a1c20;
  --dim: #5a606b;
  --ground: #fff;
  --raised: #f3f4f6;
  --line: #d5d8de;
  --link: #0b57b7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e6ea;
    --dim: #a0a6b1;
    --ground: #16181c;
    --raised: #22252b;
    --line: #3a3f48;
    --link: #82b4f8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto;
  padding: 1.5rem;
  max-width: 72rem;
  display: flex;
  gap: 2.5rem;
  font: 1rem/1.5 system-ui, sans-serif;
  color: var(--text);
  background: var(--ground);
}
nav { flex: 0 0 12rem; position: sticky; top: 1.5rem; align-self: flex-start; }
nav ul { margin: 0; padding: 0; list-style: none; }
nav li { padding: 0.25rem 0; overflow-wrap: anywhere; }
main { flex: 1; min-width: 0; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, pre:focus-visible {
  outline: 3px solid var(--link);
  outline-offset: 2px;
}
h1 { margin-top: 0; }
h1 small { color: var(--dim); font-weight: normal; }
section, #schemas { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h2, h3 { overflow-wrap: anywhere; }
.method {
  padding: 0.1rem 0.5rem;
  border-radius: 0.25rem;
  font-size: 0.75em;
  color: var(--ground);
  background: var(--link);
}
code, pre { font: 0.875rem/1.45 ui-monospace, monospace; }
code { overflow-wrap: anywhere; }
th code { white-space: nowrap; }
pre { margin: 0; padding: 0.75rem; overflow-x: auto; background: var(--raised); }
figure { margin: 0.75rem 0; }
figcaption { color: var(--dim); font-size: 0.875rem; }
details { padding: 0.5rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: 0.4rem 0.75rem 0.4rem 0; border-bottom: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; }
@media (max-width: 48rem) {
  body { display: block; }
  nav { position: static; margin-bottom: 2rem; }
}
`;
