import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { OpenApiDocument } from '../../src/openapi/document.ts';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

/** Paths of all documents, from the root of the repository. */
export function documents(): string[] {
  const root = readdirSync(ROOT).filter((name) => name.endsWith('.md'));
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name));
  const packages = readdirSync(join(ROOT, 'packages')).map((name) => `packages/${name}/README.md`);
  const clients = readdirSync(join(ROOT, 'clients')).map((name) => `clients/${name}/README.md`);
  return [...root, ...docs, ...packages, ...clients, 'test/register.md'].sort();
}

/** Rows of the table with these headings, without backticks around whole cells. */
export function table(path: string, headings: readonly string[]): string[][] {
  const lines = readText(path).split('\n');
  const head = lines.indexOf(`| ${headings.join(' | ')} |`);
  if (head === -1) throw new Error(`${path} has no table ${headings.join(' | ')}`);
  const rows: string[][] = [];
  for (let i = head + 2; lines[i]?.startsWith('|'); i++) rows.push(cells(lines[i]!));
  return rows;
}

function cells(row: string): string[] {
  return row
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
    .map((cell) => /^`([^`]*)`$/.exec(cell)?.[1] ?? cell);
}

/** Contents of the fenced blocks of a language. */
export function blocks(path: string, language: string): string[] {
  return [...readText(path).matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms'))].map(
    (match) => match[1]!,
  );
}

/** Contents of the fenced blocks under a heading of the second level. */
export function blocksUnder(path: string, heading: string): string[] {
  const section = readText(path)
    .split(/^## /m)
    .find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`${path} has no heading ${heading}`);
  return [...section.matchAll(/^```\w+\n(.*?)^```$/gms)].map((match) => match[1]!);
}

/** Pieces of code: lines of fenced blocks, and text between backticks. */
export function codePieces(path: string): string[] {
  const text = readText(path);
  const fenced = [...text.matchAll(/^```\w*\n(.*?)^```$/gms)].flatMap((match) =>
    match[1]!.split('\n'),
  );
  const inline = [...text.replaceAll(/^```.*?^```$/gms, '').matchAll(/`([^`\n]+)`/g)];
  return [...fenced, ...inline.map((match) => match[1]!)];
}

/** The pictures of a document, and its links within the repository. */
export function internalLinks(path: string): string[] {
  const text = readText(path).replaceAll(/^```.*?^```$/gms, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)]
    .map((match) => (match[1] ?? match[2])!)
    .filter((target) => !/^[a-z]+:/.test(target));
}

/** The anchors of a document's headings, by GitHub's rules. */
export function anchors(path: string): string[] {
  return [...readText(path).matchAll(/^#+ (.+)$/gm)].map((match) =>
    match[1]!
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

/** Validators for the schemas in an OpenAPI document. */
export class DocumentSchemas {
  readonly #ajv = new Ajv2020({
    ...{ allErrors: true, strict: true, strictRequired: false, allowUnionTypes: true },
  });

  constructor(document: OpenApiDocument) {
    formats.default(this.#ajv);
    this.#ajv.addVocabulary(['openapi', 'info', 'servers', 'tags', 'paths', 'components']);
    this.#ajv.addSchema({ $id: 'document', ...document } as object);
  }

  /** @param path names from the root of the document to a schema */
  at(...path: readonly (string | number)[]): ValidateFunction {
    const steps = path.map((name) =>
      encodeURIComponent(String(name).replaceAll('~', '~0').replaceAll('/', '~1')),
    );
    return this.#ajv.getSchema(`document#/${steps.join('/')}`)!;
  }
}

/** Every operation of a document. */
export function operationsOf({ paths }: OpenApiDocument) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}

/** The parts of a response, and their path in the document. */
export function responseOf(
  document: OpenApiDocument,
  path: string,
  method: string,
  status: string,
) {
  const found = document.paths[path]![method]!.responses[status]!;
  if (!('$ref' in found)) {
    return { response: found, at: ['paths', path, method, 'responses', status] };
  }
  const name = found.$ref.split('/').at(-1)!;
  return { response: document.components.responses[name]!, at: ['components', 'responses', name] };
}
