import { html } from 'hono/html';
import { type OpenApiDocument, type PathOperation, type Response, textOf } from './elements.ts';

/** The document for people: HTML for a view of the console, which has its style. */
export function referenceHtml(document: OpenApiDocument): string {
  const { info, servers, components, paths } = document;
  const { url } = servers[0]!;
  // The browser would load /openapi.json without the session of the page.
  const file = `data:application/json,${encodeURIComponent(textOf(document))}`;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const links = operations.map(
    ({ path, operation }) => html`<li><a href="#${operation.operationId}">${path}</a></li>`,
  );
  return String(html`<nav aria-label="Contents">
<ul>${links}<li><a href="#schemas">Schemas</a></li></ul>
</nav>
<div>
<p>${info.title} API ${info.version}. ${info.summary}. For programs: <a href="${file}" download="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
<p>The service listens on <code>${url}</code>.</p>
${markdown(info.description)}
${operations.map(
  ({ path, method, operation }) => html`<section>
<h2 id="${operation.operationId}"><span class="method">${method.toUpperCase()}</span> ${path}</h2>
<p><strong>${operation.summary}.</strong> ${inline(operation.description)}</p>
<pre tabindex="0">${curlOf(url + path, operation)}</pre>
<h3>Answers</h3>
${Object.entries(operation.responses).map(([status, one]) =>
  answerOf(status, '$ref' in one ? components.responses[nameOf(one.$ref)]! : one),
)}
</section>
`,
)}
<h2 id="schemas">Schemas</h2>
${Object.entries(components.schemas).map(
  ([name, schema]) => html`<h3 id="${name}">${name}</h3>
<pre tabindex="0">${JSON.stringify(schema, null, 2)}</pre>
`,
)}
</div>
`);
}

/** The first example as a command to paste. */
function curlOf(url: string, { requestBody: body, security }: PathOperation): string {
  const key = security.length === 0 ? '' : ' \\\n  -H "Authorization: Bearer $API_KEY"';
  if (body === undefined) return `curl '${url}'${key}`;
  const [example] = Object.values(body.content['application/json'].examples!);
  return [
    `curl '${url}'${key} -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(example!.value)}'`,
  ].join('\n');
}

function answerOf(status: string, { description, headers, content }: Response) {
  const { schema, examples } = content['application/json'];
  const name = nameOf(String(schema.$ref));
  const shown = Object.values(examples!).map(
    ({ summary, value }) => html`<figure><figcaption>${summary}</figcaption>
<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre></figure>
`,
  );
  return html`<details${status.startsWith('2') ? ' open' : ''}>
<summary><strong>${status}</strong> ${inline(description)}</summary>
<p>Schema: <a href="#${name}">${name}</a>. Headers: ${Object.keys(headers).join(', ')}.</p>
${shown}
</details>
`;
}

const nameOf = (reference: string): string => reference.slice(reference.lastIndexOf('/') + 1);

/** Renders the part of CommonMark that introduction() and descriptions use. */
function markdown(text: string): unknown[] {
  return text.split('\n\n').map((block) => {
    if (block.startsWith('## ')) return html`<h2>${inline(block.slice(3))}</h2>\n`;
    if (!block.startsWith('- ')) return html`<p>${inline(block)}</p>\n`;
    const items = block.slice(2).split('\n- ');
    return html`<ul>${items.map((item) => html`<li>${inline(item)}</li>`)}</ul>\n`;
  });
}

/** Renders text with `code`. */
function inline(text: string): unknown[] {
  return text
    .split('`')
    .map((piece, i) => (i % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`));
}
