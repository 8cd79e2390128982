import type { OpenApiDocument } from './document.ts';
import type { Examples } from './examples.ts';
import type { Schema } from './facts.ts';
import type { Operation } from './operations.ts';
import type { Response } from './responses.ts';

/** The document for people: HTML for a view of the console, which has its style. */
export function referenceHtml(document: OpenApiDocument): string {
  const { info, servers, components } = document;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const links = operations.map(
    ({ path, operation }) => html`<li><a href="#${operation.operationId}">${path}</a></li>`,
  );
  const { text } = html`<nav aria-label="Contents">
<ul>${links}<li><a href="#schemas">Schemas</a></li></ul>
</nav>
<div>
<p>${info.title} API ${info.version}. ${info.summary}. For programs: <a href="/openapi.json" download>openapi.json</a> (OpenAPI 3.1).</p>
<p>The service listens on <code>${servers[0]!.url}</code>.</p>
${markdown(info.description)}
${operations.map(({ path, method, operation }) =>
  operationSection(document, path, method, operation),
)}
<h2 id="schemas">Schemas</h2>
<p>Every field is always present.</p>
${Object.entries(components.schemas).map(([name, schema]) => schemaSection(name, schema))}
</div>
`;
  return text;
}

function operationSection(
  { components, servers }: OpenApiDocument,
  path: string,
  method: string,
  operation: Operation,
): Html {
  const body = operation.requestBody;
  const responses = Object.entries(operation.responses).map(([status, one]) =>
    responseSection(status, '$ref' in one ? components.responses[nameOf(one.$ref)]! : one),
  );
  const request =
    body === undefined
      ? html``
      : html`<h3>Request</h3>
<p>${inline(body.description)} Schema: ${typeOf(body.content['application/json'].schema)}</p>
${examplesOf(body.content['application/json'].examples)}`;
  return html`<section>
<h2 id="${operation.operationId}"><span class="method">${method.toUpperCase()}</span> ${path}</h2>
<p><strong>${operation.summary}.</strong> ${inline(operation.description)}</p>
<pre tabindex="0">${curlOf(servers[0]!.url + path, operation)}</pre>
${request}
<h3>Answers</h3>
${responses}
</section>
`;
}

/** The first example as a command to paste. */
function curlOf(url: string, { requestBody: body, security }: Operation): string {
  const key = security.length === 0 ? '' : ' \\\n  -H "Authorization: Bearer $API_KEY"';
  if (body === undefined) return `curl '${url}'${key}`;
  const [example] = Object.values(body.content['application/json'].examples);
  return [
    `curl '${url}'${key} -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(example!.value)}'`,
  ].join('\n');
}

function responseSection(status: string, { description, headers, content }: Response): Html {
  const { schema, examples } = content['application/json'];
  const names = Object.keys(headers).map((name) => `\`${name}\``);
  return html`<details${status.startsWith('2') ? html` open` : html``}>
<summary><strong>${status}</strong> ${inline(description)}</summary>
<p>Schema: ${typeOf(schema)}. Headers: ${inline(names.join(', '))}.</p>
${examplesOf(examples)}
</details>
`;
}

function examplesOf(examples: Examples): Html[] {
  return Object.values(examples).map(
    ({ summary, value }) =>
      html`<figure><figcaption>${summary}</figcaption>
<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre></figure>
`,
  );
}

function schemaSection(name: string, schema: Schema): Html {
  const properties = Object.entries((schema.properties ?? {}) as Record<string, Schema>);
  const rows = properties.map(
    ([field, ofField]) => html`<tr><th scope="row"><code>${field}</code></th>
<td>${typeOf(ofField)}</td>
<td>${inline(String(ofField.description ?? ''))}</td></tr>
`,
  );
  const table = html`<table><thead><tr>
<th scope="col">Field</th><th scope="col">What</th><th scope="col">Meaning</th></tr></thead>
<tbody>${rows}</tbody></table>`;
  return html`<h3 id="${name}">${name}</h3>
<p>${inline(String(schema.description ?? ''))} ${rows.length > 0 ? html`` : typeOf(schema)}</p>
${rows.length > 0 ? table : html``}
`;
}

const nameOf = (reference: string): string => reference.slice(reference.lastIndexOf('/') + 1);

/** Describes a schema in a few words. */
function typeOf(schema: Schema): Html {
  if (typeof schema.$ref === 'string') {
    const name = nameOf(schema.$ref);
    return html`<a href="#${name}">${name}</a>`;
  }
  if (schema.const !== undefined) return html`<code>${JSON.stringify(schema.const)}</code>`;
  if (schema.enum !== undefined) {
    const choices = (schema.enum as readonly string[]).map((choice) => `\`${choice}\``);
    return html`${inline(choices.join(', '))}`;
  }
  const more = ['format', 'pattern', 'minimum'].filter((word) => word in schema);
  const bounds = more.map((word) => html`, ${word} <code>${String(schema[word])}</code>`);
  const type = schema.not === undefined ? String(schema.type) : 'object or array';
  return html`${type}${bounds}`;
}

/** Trusted HTML. All other text is escaped when it is inserted. */
class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Content = string | number | Html | readonly Html[];

function html(pieces: TemplateStringsArray, ...contents: readonly Content[]): Html {
  return new Html(pieces.reduce((text, piece, i) => text + textOf(contents[i - 1]!) + piece));
}

function textOf(content: Content): string {
  if (content instanceof Html) return content.text;
  if (typeof content === 'object') return content.map(({ text }) => text).join('');
  return String(content).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Renders the part of CommonMark that introduction() and descriptions use. */
function markdown(text: string): Html[] {
  return text.split('\n\n').map((block) => {
    if (block.startsWith('## ')) return html`<h2>${inline(block.slice(3))}</h2>\n`;
    if (!block.startsWith('- ')) return html`<p>${inline(block)}</p>\n`;
    const items = block.slice(2).split('\n- ');
    return html`<ul>${items.map((item) => html`<li>${inline(item)}</li>`)}</ul>\n`;
  });
}

/** Renders text with `code`. */
function inline(text: string): Html[] {
  return text
    .split('`')
    .map((piece, i) => (i % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`));
}
