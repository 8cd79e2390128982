import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';

/** A source file. The path is below `src/`, or like `packages/client/src/index.ts`. */
export interface Source {
  readonly path: string;
  readonly text: string;
}

/** A rule of the code. Returns the faults of a file, in words. */
export type Rule = (source: Source, all: readonly Source[]) => string[];

export function readSources(folder: string): Source[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => ({ path: name, text: readFileSync(join(folder, name), 'utf8') }));
}

/** Rooms in packages/, which import nothing of the service. */
export function readPackages(folder: string, part: 'src' | 'test'): Source[] {
  return readdirSync(folder).flatMap((name) =>
    readSources(join(folder, name, part)).map(({ path, text }) => ({
      path: join('packages', name, part, path),
      text,
    })),
  );
}

/** Lines of a table like `room: other another`; a list goes on in lines that begin with a space. */
function tableOf(lines: string): Record<string, readonly string[]> {
  const rows = lines.trim().split(/\n(?! )/);
  return Object.fromEntries(
    rows.map((row) => {
      const [name, ...list] = row.split(/:?\s+|:$/).filter((word) => word !== '');
      return [name, list];
    }),
  );
}

/** The rooms that a room may import, all above it in this list. Each file directly in src/ is a room. */
const ROOMS = tableOf(`
terminal:
types:
client-settings: terminal types
crypto: types
errors:
private-files: errors
kek: crypto errors private-files
options: kek
fetch-json: errors
refresher: errors
timeouts:
batcher: errors timeouts
store: types client-settings errors timeouts batcher
embedded: errors private-files
vault: terminal types crypto errors kek options refresher timeouts store embedded
access: terminal types client-settings crypto errors options fetch-json refresher timeouts store
  vault
limits: types client-settings errors
shape: types
detect: errors fetch-json shape
policy: types client-settings crypto errors refresher timeouts store vault shape detect #paths
audit: terminal crypto errors batcher limits policy
memory:
config: client-settings errors private-files kek options store memory detect #paths
version:
observe: terminal types errors version
tokens: types client-settings crypto errors options refresher timeouts store vault access shape
  detect policy
public: types errors access limits detect policy audit observe tokens #paths
openapi: errors public
records: types crypto errors timeouts store vault shape policy tokens
ops: types client-settings errors kek options timeouts vault access limits policy audit observe
  tokens public openapi records #console #paths
process: terminal types crypto errors private-files kek options timeouts store vault access limits
  policy audit memory config version observe tokens public ops detect
main: kek timeouts store vault access audit config observe records process
commands: terminal types client-settings errors kek options timeouts embedded vault access policy
  audit config version tokens public openapi records ops process main #client #paths #bulk
  #model-proxy
cli: commands
#paths: #client/path
#bulk: #paths
#model-proxy: #client #paths/json-text
#console: #client/path #paths/json-text
`);

/** Rooms that the service imports by these names in package.json. */
const OWN_PACKAGES = ['#bulk', '#client', '#console', '#model-proxy', '#paths'];

/** npm packages that only these rooms may import. */
const PACKAGES = tableOf(`
store: pg
embedded: @electric-sql/pglite
#console: preact preact/hooks uplot
commands: node:crypto age-encryption commander
crypto: node:crypto
public: node:crypto
ops: node:crypto hono hono/cookie hono/etag hono/method-not-allowed
cli: commander
policy: yaml
openapi: hono/html
observe: pino prom-client
access: jose
shape: libphonenumber-js/min
detect: re2js
limits: @redis/client
kek: @aws-sdk/client-kms @azure/identity google-auth-library
process: @opentelemetry/api @opentelemetry/exporter-trace-otlp-http @opentelemetry/resources
  @opentelemetry/sdk-trace
`);

export const roomsKeepApart: Rule = ({ path, text }) => {
  const room = roomOf(path);
  const may = ROOMS[room] ?? (OWN_PACKAGES.includes(room) ? [] : undefined);
  if (may === undefined) return [`${path} is in no known room`];
  return importsOf(text).flatMap((target) => {
    if (!/^[.#]/.test(target)) {
      return mayUse(target, room, path) ? [] : [`${path} must not import ${target}`];
    }
    const other = target.startsWith('#') ? target : roomOf(resolveImport(path, target));
    return other === room || may.includes(other) ? [] : [`${path} must not import ${other}`];
  });
};

/** Our own packages import no npm package but those above. */
function mayUse(target: string, room: string, path: string): boolean {
  const isListed = PACKAGES[room]?.includes(target) === true;
  if (OWN_PACKAGES.includes(room))
    return isListed || path.includes('/test/') || target.startsWith('node:');
  return isListed || !Object.values(PACKAGES).some((list) => list.includes(target));
}

/** By path, the files that each file imports, those included of which it needs only types. */
function importsIn(all: readonly Source[]): ReadonlyMap<string, readonly string[]> {
  const known = graphs.get(all);
  if (known !== undefined) return known;
  const graph = new Map(
    all.map(({ path, text }) => {
      const targets = importsOf(text).filter((target) => target.startsWith('.'));
      return [path, targets.map((target) => resolveImport(path, target))] as const;
    }),
  );
  graphs.set(all, graph);
  return graph;
}

const graphs = new WeakMap<readonly Source[], ReadonlyMap<string, readonly string[]>>();

export const noCycles: Rule = ({ path }, all) => {
  const graph = importsIn(all);
  const seen = new Set<string>();
  const stack = [...(graph.get(path) ?? [])];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if (next === path) return [`${path} imports itself over other files`];
    if (!seen.has(next)) stack.push(...(graph.get(next) ?? []));
    seen.add(next);
  }
  return [];
};

export const filesAreShort: Rule = ({ path, text }) => {
  const lines = text.split('\n');
  const code = withoutTexts(text).split('\n');
  const problems = lines.length > 400 ? [`${path} has ${lines.length} lines`] : [];
  lines.forEach((line, i) => {
    // The formatter breaks code. It cannot break a string without changing it.
    if (line.length > 100 && code[i]!.trim().length > MAX_CODE_BESIDE_TEXT)
      problems.push(`${path}:${i + 1} is too long`);
  });
  return problems;
};

/** The code that may precede a long string on its line: `throw new OperatorError(`. */
const MAX_CODE_BESIDE_TEXT = 40;

const COMMENT = /\/\/.*|\/\*[\s\S]*?\*\//;
const STRING = /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"/;
const TEMPLATE = /`(?:\\[\s\S]|\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\}|[^`\\])*`/;
const REGEXP = /(?<=[(=:,[!&|?]\s*)\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+\//;
const TOKENS = new RegExp(
  [COMMENT, STRING, TEMPLATE, REGEXP].map(({ source }) => source).join('|'),
  'g',
);

/** The code and the comments of a file, each on its original line. */
function withoutTexts(text: string): string {
  return text.replace(TOKENS, (token) =>
    /^\/[/*]/.test(token) ? token : token.replace(/[^\n]/g, ''),
  );
}

export const namesSaySomething: Rule = ({ path }) =>
  /(^|[/-])(lib|utils?|helpers?|common|managers?)([./-]|$)/.test(path)
    ? [`${path}: banned name`]
    : [];

/** A file and a folder must not share a name: a reader who looks for `config` finds one thing. */
export const foldersHaveTheirOwnNames: Rule = ({ path }, all) => {
  const folder = path.replace(/\.tsx?$/, '/');
  return all.some((other) => other.path.startsWith(folder))
    ? [`${path} has the name of a folder`]
    : [];
};

export const oneReaderOfTheEnvironment: Rule = ({ path, text }) =>
  path !== 'config/config.ts' && text.includes('process.env') ? [`${path} reads process.env`] : [];

export const statementsHaveNoName: Rule = ({ path, text }) =>
  path.startsWith('store/') && /query\(\{[^}]*\bname:/.test(text)
    ? [`${path}: a named statement`]
    : [];

export const nothingIsLeft: Rule = ({ path, text }) =>
  /\b(TODO|FIXME|XXX|console\.(log|error))\b/.test(text) ? [`${path}: a leftover`] : [];

/** A flaky test counts as failing: a retry would hide a race, and `.only` hides all other tests. */
export const testsRunOnceAndAll: Rule = ({ path, text }) =>
  /\bretry:|\.only\(/.test(text) ? [`${path}: a retry, or .only`] : [];

/** Tests wait for a condition (`until`). Only the length of a fault is a time (`lasting`). */
export const testsDoNotSleep: Rule = ({ path, text }) =>
  /await new Promise(<\w+>)?\(\(\w+\) => setTimeout|timers\/promises/.test(text)
    ? [`${path} sleeps`]
    : [];

function roomOf(path: string): string {
  const own = /^packages\/([\w-]+)\//.exec(path);
  if (own !== null) return `#${own[1]}`;
  return path.includes('/') ? path.split('/')[0]! : path.replace(/\.ts$/, '');
}

function importsOf(text: string): string[] {
  const form = /(?:^(?!\s*(?:\/?\*|\/\/)).*\bfrom|import\() ?'([^']+)'/gm;
  return [...text.matchAll(form)].map((match) => match[1]!);
}

function resolveImport(path: string, target: string): string {
  return relative('.', normalize(join(dirname(path), target)));
}

const COUNTED = /\.(tsx?|mjs|js|css|html|py|sql|pml)$/;
const COMMENT_LINES: Readonly<Record<string, RegExp>> = { py: /^\s*#/, sql: /^\s*--/, html: /^$/ };

/** Lines of code of each part of a checkout, without blank lines and comments. */
export function linesByPart(root: string): Record<string, number> {
  const files = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n');
  const lines: Record<string, number> = {};
  for (const file of files.filter((one) => COUNTED.test(one))) {
    const isComment = COMMENT_LINES[file.split('.').at(-1)!] ?? /^\s*(\/\/|\*)/;
    const code = readFileSync(join(root, file), 'utf8')
      .replace(/^\s*\/\*[\s\S]*?\*\//gm, '')
      .split('\n')
      .filter((line) => line.trim() !== '' && !isComment.test(line));
    lines[partOf(file)] = (lines[partOf(file)] ?? 0) + code.length;
  }
  return lines;
}

function partOf(file: string): string {
  if (/(^|\/)tests?\//.test(file)) return 'tests';
  const [first, second, third] = file.split('/');
  if (second === undefined) return 'root';
  if (first === 'src') return third === undefined ? 'src' : `src/${second}`;
  return ['packages', 'clients'].includes(first!) ? `${first}/${second}` : first!;
}
