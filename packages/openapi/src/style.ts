/** The style sheet of the reference. It uses system fonts and colours, and loads nothing. */
export const STYLE = `:root {
  color-scheme: light dark;
  --text: #171b21;
  --dim: #586170;
  --ground: #fff;
  --raised: #f0f2f5;
  --line: #e1e5ea;
  --link: #2952d9;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e8ebef;
    --dim: #9aa5b3;
    --ground: #14181e;
    --raised: #1d232b;
    --line: #262d37;
    --link: #86a6ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0;
  font: 14px/1.5 system-ui, sans-serif;
  color: var(--text);
  background: var(--ground);
}
header {
  display: flex;
  flex-wrap: wrap;
  align-items: center;
  gap: 0 24px;
  padding: 0 20px;
  border-bottom: 1px solid var(--line);
}
header .brand {
  display: flex;
  align-items: center;
  gap: 8px;
  padding: 12px 0;
  color: var(--text);
  font-size: 15px;
  font-weight: 650;
}
header .brand::before {
  width: 18px;
  height: 18px;
  border-radius: 5px;
  background:
    linear-gradient(#fff 0 0) 4px 5px / 6px 2px no-repeat,
    linear-gradient(#fff 0 0) 12px 5px / 2px 2px no-repeat,
    linear-gradient(#fff 0 0) 4px 10px / 2px 2px no-repeat,
    linear-gradient(#fff 0 0) 8px 10px / 6px 2px no-repeat,
    #2f5bea;
  content: "";
}
header a { text-decoration: none; }
header nav { display: flex; max-width: 100%; overflow-x: auto; }
header nav a {
  padding: 12px 11px 10px;
  border-bottom: 2px solid transparent;
  color: var(--dim);
  white-space: nowrap;
}
header nav a:hover { color: var(--text); }
header nav a[aria-current] { border-color: var(--link); color: var(--text); font-weight: 550; }
.page { display: flex; gap: 2.5rem; margin: 0 auto; padding: 1.5rem; max-width: 72rem; }
.page > nav { flex: 0 0 12rem; position: sticky; top: 1.5rem; align-self: flex-start; }
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
  header nav { flex-wrap: wrap; margin-left: -11px; }
  header nav a { padding: 4px 11px 6px; }
  .page { display: block; }
  .page > nav { position: static; margin-bottom: 2rem; }
  th code { white-space: normal; }
  td { overflow-wrap: anywhere; }
}
`;
